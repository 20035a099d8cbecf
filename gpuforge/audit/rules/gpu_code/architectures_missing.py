"""GF401: architectures that are declared and not embedded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from gpuforge.audit import declared
from gpuforge.audit.generations import EMPTY_PTX, judgeable
from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.intent import Intent
from gpuforge.audit.model import Finding, Severity, WheelFacts
from gpuforge.binary.facts import Container, DeviceCode, Entry
from gpuforge.toolkits import libraries

CODE = "GF401"
SEVERITY: Severity = "error"
TITLE = "a declared GPU architecture is not in every fatbin container"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each container with the manifest's architectures; a union over containers proves nothing.

    One of PTX alone lacks them all.
    """
    for wheel in graph.wheels:
        intent = graph.intent_of(wheel)
        if intent is None or not intent.cubins:
            continue
        own = list(own_code(wheel))
        if not any(map(_has_kernels, own)) and (intent.kernel_sets or not intent.source_sets):
            yield _nothing(wheel)  # sources are compiled elsewhere
        for code in own:
            judged, _ = judgeable(code.containers)
            for arch in intent.cubins:
                lacking = sum(arch not in c.cubins for c in judged)
                if lacking:
                    yield _lacking(wheel, code, arch, lacking, len(judged))


def own_code(wheel: WheelFacts) -> Iterator[DeviceCode]:
    """Yield the GPU code that the project itself compiled: not that of NVIDIA's libraries or compilers' runtimes."""
    if not wheel.device or is_toolkit(wheel):
        return
    yield from (code for code in wheel.device if _is_own(code.file.rpartition("/")[2]))


@cache  # several rules ask, of thousands of files in some wheels
def _is_own(file: str) -> bool:
    if not (".so" in file or file.endswith(".a")):
        return True  # a cubin, a fatbin, PTX
    name = libraries.plain_name(file)
    stem = re.split(r"_static\b|\.so|\.a$", name)[0]
    nvidias = any(library.package in declared.nvidias() for library in declared.candidates(name))
    return not (nvidias or stem in _stems() or libraries.compiler_runtime(name))


@cache
def _stems() -> frozenset[str]:
    """Return the names of CUDA's libraries without what follows; libcudadevrt and its like are archives alone."""
    known = (e.soname.partition(".so")[0] for cuda in (11, 12, 13) for e in libraries.toolkit_libraries(cuda))
    return frozenset(known) | {"libcudadevrt", "libculibos", "libcupti"}


def is_toolkit(wheel: WheelFacts) -> bool:
    """Say whether a wheel is one of NVIDIA's own, with libraries of a CUDA toolkit or built upon them."""
    return wheel.project in declared.nvidias()


def as_declared(intent: Intent, wheel: WheelFacts) -> bool:
    """Say whether every container has machine code and PTX for what is declared, and for nothing else.

    The PTX of relocatable code is that of the inputs of its device link.
    """
    if not (intent.cubins or intent.ptx):
        return False
    for code in own_code(wheel):
        judged, inputs = judgeable(code.containers)
        if any(container.cubins != set(intent.cubins) for container in judged):
            return False
        if any(container.ptx - set(intent.ptx) for container in code.containers):
            return False
        if any({e.arch for e in ptx_of(container)} != set(intent.ptx) for container in inputs or judged):
            return False
    return True


def _has_kernels(code: DeviceCode) -> bool:
    """Say whether there is anything to run: nvcc leaves images without a kernel in libraries of host code, too."""
    judged, _ = judgeable(code.containers)
    return bool(judged) or any(e.kind == "lto-ir" for c in code.containers for e in c.entries)


def ptx_of(container: Container) -> list[Entry]:
    """Return the PTX of a container that has a function in it."""
    return [entry for entry in container.entries if entry.kind == "ptx" and entry.size >= EMPTY_PTX]


def relocatable(container: Container) -> bool:
    """Say whether a container is the input of a device link, which is kept beside its result."""
    return container.section == "__nv_relfatbin"


def _lacking(wheel: WheelFacts, code: DeviceCode, arch: str, lacking: int, total: int) -> Finding:
    count = "no container" if lacking == total else f"only {total - lacking} of {total} containers"
    return Finding(
        CODE,
        SEVERITY,
        wheel.name,
        files=(code.file,),
        subject=(f"{code.file}: {count} with {arch}",),
        message="architectures that are declared are not embedded: such a GPU runs these kernels by JIT from "
        "PTX, or not at all",
        remedy="see that the build passes the declared architectures on (CMAKE_CUDA_ARCHITECTURES), or declare those "
        "that it has",
    )


def _nothing(wheel: WheelFacts) -> Finding:
    return Finding(
        CODE,
        SEVERITY,
        wheel.name,
        files=(),
        subject=("the whole wheel",),
        message="GPU architectures are declared and the wheel has no GPU code of its own: some builds leave it "
        "out without an error when they find no compiler",
        remedy="see in the log of the host build that it compiles its kernels; for a package that has none, write "
        "archs = [] in its [cuda.*] tables",
    )
