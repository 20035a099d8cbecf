"""GF601: host-only objects with something of a GPU toolchain in them."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.intent import HostOnly, matches
from gpuforge.audit.model import ElfObject, Finding, Severity, WheelFacts
from gpuforge.toolkits import libraries

CODE = "GF601"
SEVERITY: Severity = "error"
TITLE = "a host-only object has something of a GPU toolchain in it"

_GPU_TOOLCHAINS = {"nvhpc", "pgi", "gcc-offload"}


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Look at every file that the manifest calls host-only, and at what it loads from the wheel."""
    if graph.intent is None:
        return
    for wheel in graph.wheels:
        for promised in graph.intent.host_only:
            for file in sorted(files_of(promised, wheel)):
                if traces := list(dict.fromkeys(_traces(graph, wheel, file))):
                    yield Finding(
                        CODE,
                        SEVERITY,
                        wheel.name,
                        files=(file,),
                        subject=tuple(f"{file}: {trace}" for trace in traces),
                        message=f"the object {promised.name!r} is declared host-only, and its files are not",
                        remedy="compile and link these files with the host compiler alone; move GPU code into a "
                        "fallback or user-compiled object",
                    )


def files_of(promised: HostOnly, wheel: WheelFacts) -> set[str]:
    """Return the files of a wheel that a host-only object's patterns name, but for kernel sets."""
    return {
        member
        for member in wheel.members
        if "/_gpuforge/" not in f"/{member}" and any(matches(p, member) for p in promised.patterns)
    }


def _traces(graph: LinkGraph, wheel: WheelFacts, file: str) -> Iterator[str]:
    for code in wheel.device:
        if code.file == file:
            archs = sorted({e.arch for c in code.containers for e in c.entries})
            yield f"GPU code for {', '.join(archs)}"
    found = next((o for o in wheel.objects if o.file == file), None)
    if found is None:
        return
    for holder in _closure(graph, found):
        through = "" if holder is found else f", through {holder.name}"
        if "static-cudart" in holder.markers:
            yield f"a static libcudart{through}"
        if "nvhpc" in holder.markers and not libraries.compiler_runtime(libraries.plain_name(holder.name)):
            yield f"symbols of the NVIDIA HPC compilers{through}"
        for name in holder.needed:
            plain = libraries.plain_name(name)
            family = libraries.compiler_runtime(plain)
            if plain.startswith("libcudart.so"):
                yield f"needs {name}{through}"
            elif family in _GPU_TOOLCHAINS:
                yield f"needs {name}, a runtime of {family}{through}"


def _closure(graph: LinkGraph, found: ElfObject) -> list[ElfObject]:
    """Return an object and everything of its own wheel that it loads."""
    order = [found]
    for holder in order:
        for edge in graph.from_object(holder):
            target = edge.provider.object
            if target is not None and target.wheel == found.wheel and target not in order:
                order.append(target)
    return order
