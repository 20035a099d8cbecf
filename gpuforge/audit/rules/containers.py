"""Predicates of the rules about GPU code for fatbin containers, and the choice of the project's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from gpuforge.audit.dlls import is_of_nvidia
from gpuforge.audit.findings import Facts, facts_of
from gpuforge.audit.link import package_tables
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.recognise import is_nvidia_wheel
from gpuforge.binary.facts import DeviceCode, FatbinContainer
from gpuforge.binary.runnable import bearing_ptx, compiled, complete_ptx, not_linked, runnable
from gpuforge.cuda import carriers, libraries, sonames
from gpuforge.runtime import layout

if TYPE_CHECKING:
    from gpuforge.expectation import Expectation


def own_code(wheel: WheelFacts) -> Iterator[DeviceCode]:
    """Yield the GPU code that the project itself compiled, without that of NVIDIA's libraries or compilers' runtimes.

    IREE's modules are compiled for `targets`, not for the manifest's architectures: GF701 compares them.
    """
    if not wheel.device or is_nvidia_wheel(wheel):
        return
    yield from (code for code in wheel.device if is_own(code.file))


def of_archs(expectation: Expectation, wheel: WheelFacts) -> Iterator[DeviceCode]:
    """Yield the project's own GPU code for `[cuda.*] archs`; GF701 compares the rest with its targets."""
    apart = tuple(f"{layout.kernels(layout.HOME, name)}/" for name in expectation.targets)
    yield from (code for code in own_code(wheel) if not any(folder in code.file for folder in apart))


def is_own(file: str) -> bool:
    """Return whether a file is of the project, and not NVIDIA's or of a compiler."""
    return _is_own(file.rpartition("/")[2])


@cache  # several rules call it, for thousands of files in some wheels
def _is_own(file: str) -> bool:
    if file.endswith(".vmfb"):
        return False
    if file.lower().endswith(".dll"):
        return not is_of_nvidia(file)
    if not (".so" in file or file.endswith(".a")):
        return True  # a cubin, a fatbin, PTX
    name = sonames.plain_name(file)
    stem = re.split(r"_static\b|\.so|\.a$", name)[0]
    nvidias = any(
        library.package in carriers.nvidia_packages() for library in package_tables.candidates(name)
    )
    return not (nvidias or stem in _stems() or libraries.is_driver(name) or libraries.compiler_runtime(name))


@cache
def _stems() -> frozenset[str]:
    """Return the names of CUDA's libraries up to ".so"; libcudadevrt and others exist only as archives."""
    known = (sonames.stem(each.soname) for each in libraries.toolkit_libraries())
    return frozenset(known) | {"libcudadevrt", "libculibos", "libcupti"}


def as_declared(expectation: Expectation, wheel: WheelFacts) -> bool:
    """Return whether every container has machine code and PTX for the declared architectures, and nothing else.

    Not all constants of large objects are read.
    """
    if not (expectation.cubins or expectation.ptx):
        return False
    if any(not o.all_searched and is_own(o.file) for o in wheel.objects):
        return False
    codes = list(of_archs(expectation, wheel))
    return any(map(has_kernels, codes)) and all(_is_as_declared(expectation, code) for code in codes)


def _is_as_declared(expectation: Expectation, code: DeviceCode) -> bool:
    """Compare the containers of a file; the PTX of relocatable code is in the inputs of its device link."""
    judged, inputs = compiled(code.containers)
    cubins, ptx = set(expectation.cubins), set(expectation.ptx)
    if any(c.cubins != cubins or _others(c) for c in judged) or any(_others(c) - {"lto-ir"} for c in inputs):
        return False
    if any(c.ptx - ptx for c in code.containers) or (ptx and not_linked(judged, inputs)):
        return False
    return all({e.arch for e in complete_ptx(c)} == ptx for c in bearing_ptx(judged, inputs))


def _others(container: FatbinContainer) -> set[str]:
    """Return the kinds of a container's images that are neither machine code nor PTX."""
    return {e.kind for e in container.entries} - {"cubin", "ptx"}


def to_compare(
    expectation: Expectation, code: DeviceCode
) -> tuple[list[FatbinContainer], list[FatbinContainer]]:
    """Return the containers of a file that should have the declared code, and the inputs of a device link.

    With CUDA's static libraries, LTO-IR alone may be theirs: cuFFT's is for callbacks.
    """
    return (runnable if expectation.linkage == "static" else compiled)(code.containers)


def has_kernels(code: DeviceCode) -> bool:
    """Return whether there is a kernel: nvcc writes images without one into libraries of host code, too."""
    return any(compiled(code.containers))


def coverage(having: int, total: int) -> tuple[str, Facts]:
    """Return the number of containers that have something, as a subject's detail with its facts."""
    text = "in only {having} of {total} containers" if having else "in no container"
    return text, facts_of(having=having, total=total)


def is_relocatable(container: FatbinContainer) -> bool:
    """Return whether a container is the input of a device link, which is kept beside its result."""
    return container.section == "__nv_relfatbin"


def is_specific(container: FatbinContainer) -> bool:
    """Return whether a container has only images for `a` and `f` targets."""
    return bool(container.entries) and all(e.arch.variant for e in container.entries)
