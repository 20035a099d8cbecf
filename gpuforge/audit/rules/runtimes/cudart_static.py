"""GF103: a statically linked CUDA runtime beside another copy of it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.host_files import files_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.nvidia import is_nvidia_library
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.cudart import loaded_cudarts
from gpuforge.audit.rules.runtimes.loaded import LoadedLibrary
from gpuforge.audit.rules.runtimes.processes import Process, processes
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import sonames
from gpuforge.cuda.libraries import is_cudart
from gpuforge.runtime import layout

_SHARED = ("pip", "bundle", "system")  # linkages with a shared runtime
_KERNELS = f"/{layout.kernels(layout.HOME)}/"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find objects with a static libcudart beside a shared one (a warning in one import), or beside each other.

    A kernel set's library always shares a process with the wheel's own code, so there it is a warning, too. NVIDIA's
    own libraries contain it by design: they hide its symbols and never share its state.
    """
    yield from _against_manifest(graph)
    reported: list[set[str]] = []
    for process in processes(graph):
        static = [o for o in process.objects if o.has_static_cudart and not is_nvidia_library(graph, o)]
        copies = loaded_cudarts(graph, process.objects)
        names = {o.file for o in static} | {i.origin.name for i in copies}
        if not static or len(names) < 2 or any(names <= known for known in reported):
            continue
        reported.append(names)
        yield _finding(process, static, copies, mixed=_with_kernels(process, static, copies))


RULE = Rule(
    code="GF103",
    severity="error",
    title="a static CUDA runtime and another copy of it would be loaded into one process",
    check=check,
    of_process=True,
)


def _against_manifest(graph: LinkGraph) -> Iterator[Finding]:
    """Find static runtimes in a wheel whose manifest has the shared one of NVIDIA's package."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is None or expectation.linkage not in _SHARED:
            continue
        host_only = {file for each in expectation.host_only for file in files_of(each.patterns, wheel)}
        for found in (o for o in wheel.objects if o.file not in host_only):  # reported as GF601
            # with the shared one as well, it came out of a static library of NVIDIA
            both = any(is_cudart(sonames.plain_name(name)) for name in found.needed)
            if found.has_static_cudart and not both and not is_nvidia_library(graph, found):
                yield RULE.finding(
                    wheel.name,
                    files=(found.file,),
                    subjects=(Subject(file=found.file, kind="static libcudart"),),
                    cause=("linkage", expectation.linkage),
                    what="A CUDA runtime is linked into objects statically, and the manifest has linkage = "
                    f'"{expectation.linkage}".',
                    why="Each such object has a runtime of its own beside the shared one of the other packages: last "
                    "errors and registered kernels are not shared.",
                    fix="Remove the option that chooses the static runtime (-cudart=static, CUDA_RUNTIME_LIBRARY "
                    'Static, cudart_static) from the project\'s build; or write linkage = "static".',
                )


def _with_kernels(process: Process, static: list[ElfObject], copies: list[LoadedLibrary]) -> bool:
    """Return whether a kernel set's library has another CUDA runtime than its wheel's other objects."""
    files = [*(o.file for o in static), *(copy.loader for copy in copies)]
    return process.scope == "wheel" and any(_KERNELS in f"/{file}" for file in files)


def _finding(
    process: Process, static: list[ElfObject], shared: list[LoadedLibrary], *, mixed: bool
) -> Finding:
    # an object that needs the shared one, too, got its own from a static library of NVIDIA, not on purpose
    chosen = [o for o in static if not any(map(is_cudart, o.needed))]
    serious = (process.scope == "import" or mixed) and bool(shared) and bool(chosen)
    wheel = process.blamed([o.wheel for o in static])
    own = [o for o in static if o.wheel == wheel]
    return RULE.finding(
        wheel,
        across=process.across,
        severity="warning" if serious else "info",
        files=tuple(o.file for o in own),
        subjects=(
            *(Subject(file=o.file, detail="static", wheel=o.wheel) for o in static),
            *(library.subject() for library in shared),
        ),
        cause=(mixed,),
        what="A kernel library and the rest of the wheel have different CUDA runtimes, one of them linked "
        "statically."
        if serious and mixed
        else "One import loads a statically linked CUDA runtime and another copy of it."
        if serious
        else "Several CUDA runtimes can be in one process, and some of them are linked statically.",
        why="Each has its own last error and registered kernels.",
        fix="Let gpuforge choose the runtime: remove -cudart from the flags in gpuforge.toml, and "
        "CUDA_RUNTIME_LIBRARY from the host build."
        if serious and mixed
        else "Use the shared libcudart in all objects that share device state (nvcc --cudart=shared). "
        "None needed if they share only pointers, streams and events.",
    )
