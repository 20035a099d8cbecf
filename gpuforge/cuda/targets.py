"""The code to embed for architectures, as manifests, nvcc, CMake and torch write it."""

from collections.abc import Sequence
from typing import NamedTuple

from gpuforge.runtime.arch import Arch


class Target(NamedTuple):
    """The code to embed for one architecture: machine code (`real`), PTX (`ptx`), or both."""

    arch: Arch
    real: bool = True
    ptx: bool = False

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read an architecture, with "+ptx" for PTX beside machine code or "ptx:" for PTX only; raises ValueError."""
        alone = text.startswith("ptx:")
        marked = text[-4:].lower() == "+ptx"
        if alone and marked:
            raise ValueError(f"{text!r} is not a GPU architecture")
        bare = text[4:] if alone else text[:-4] if marked else text
        return cls(Arch.parse(bare), not alone, alone or marked)

    @property
    def written(self) -> str:
        """In manifests: "90", "90+ptx", and "ptx:90" for PTX only."""
        number = self.arch.number
        return (f"{number}+ptx" if self.ptx else number) if self.real else f"ptx:{number}"

    @property
    def gencode(self) -> "tuple[str, ...]":
        """The arguments of nvcc: `-gencode=arch=compute_90,code=sm_90` for machine code, then PTX."""
        codes = [self.arch.sm] * self.real + [self.arch.compute] * self.ptx
        return tuple(f"-gencode=arch={self.arch.compute},code={code}" for code in codes)

    @property
    def cmake(self) -> "tuple[str, ...]":
        """The items of CMAKE_CUDA_ARCHITECTURES: "90-real", then "90-virtual"."""
        kinds = ["real"] * self.real + ["virtual"] * self.ptx
        return tuple(f"{self.arch.number}-{kind}" for kind in kinds)

    @property
    def torch(self) -> str:
        """The item of TORCH_CUDA_ARCH_LIST: "9.0", or "9.0+PTX", which includes machine code."""
        return self.arch.dotted + ("+PTX" if self.ptx else "")


def targets(archs: Sequence[str], ptx: "str | None" = None) -> "tuple[Target, ...]":
    """Return a manifest's `archs` and `ptx`: first all machine code, then each PTX once; raises ValueError."""
    parsed = [Target.parse(text) for text in archs]
    virtual = [target.arch for target in parsed if target.ptx] + ([Arch.parse(ptx)] if ptx else [])
    real = [Target(target.arch) for target in parsed if target.real]
    return (*real, *(Target(arch, real=False, ptx=True) for arch in dict.fromkeys(virtual)))
