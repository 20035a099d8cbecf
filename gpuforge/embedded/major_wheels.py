"""The wheels of one CUDA major that extras of another wheel install."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelsWheel:
    """A kernels wheel: its distribution ("saxpy-kernels-cu13"), its folder, and the extra that installs it."""

    distribution: str
    folder: str
    extra: str


@dataclass(frozen=True, slots=True)
class KernelsWheelSet:
    """A kernel set of a kernels wheel, with the interface (`abi`) that the code of the package was built for."""

    name: str
    kind: str
    abi: str
    stands_in_for: str = ""  # the object that it replaces
    cpu: str = ""  # the library that does the work of its modules on the CPU


@dataclass(frozen=True, slots=True)
class FrontExtra:
    """An extra of the front package ("cuda12"), the wheel that it installs ("name-cu12"), and that wheel's extra."""

    extra: str
    distribution: str
    with_extra: str = ""  # "" if the wheel declares CUDA's packages without an extra
