"""Kernels of a compiled module, and the images that have them: each one's kind of code, and its target."""

from typing import NamedTuple, Self

from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import CpuLevel
from gpuforge.runtime.values import kind_of


class Parameter(NamedTuple):
    """A parameter: its type in C++, "const float *", or "" if the symbol does not tell it; its size in bytes."""

    type: str
    size: int


class Kernel(NamedTuple):
    """A kernel: "_Z5scalePfy", "scale". With C linkage both are the same, and its parameters have no type."""

    symbol: str
    name: str
    parameters: tuple[Parameter, ...]


class KernelImage(NamedTuple):
    """One image. The code for CPUs of a library is one image of the kind "library"."""

    kind: str  # "cubin", "ptx", "lto-ir", "library", "iree-cuda"
    built_for: Arch | CpuLevel | None  # None for code for any device: "iree-vulkan"
    # of PTX: the ISA version that was read from it; "" for other kinds, and if nothing was read
    isa: str = ""

    @classmethod
    def parse(cls, kind: str, target: str, isa: str = "") -> Self:
        """Read an image of an index; raises ValueError for a target that its kind cannot have."""
        built_for = kind_of(kind).built_for
        if built_for == "CPU":
            return cls(kind, CpuLevel(target))
        if built_for == "GPU":
            return cls(kind, Arch.parse(target), isa)
        if target:
            raise ValueError(f"{kind} is not built for {target!r}")
        return cls(kind, None)

    @property
    def target(self) -> str:
        """Its target in the form of the index: "sm_80", "compute_120", "x86-64-v3"."""
        return self.built_for.of_image(self.kind) if self.built_for else ""
