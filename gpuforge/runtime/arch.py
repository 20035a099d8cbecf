"""A GPU architecture: parsed from every spelling in use, ordered, and written in the form of each tool."""

from collections.abc import Sequence
from typing import NamedTuple

_PREFIXES = ("sm_", "compute_", "lto_")


class Arch(NamedTuple):
    """A compute capability to compile for, and the GPUs that run the result; ordered by number, then variant.

    `variant` is "a" (only this architecture), "f" (its family) or "" (this one and later ones):
    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html
    """

    major: int
    minor: int
    variant: str = ""

    @classmethod
    def parse(cls, text: str) -> "Arch":
        """Read "90a", "sm_90a", "compute_90a", "lto_90a" or "9.0a"; raises ValueError for anything else."""
        prefix = next((p for p in _PREFIXES if text.startswith(p)), "")
        number = text[len(prefix) :]
        variant = number[-1:] if number[-1:] in ("a", "f") else ""
        number = number[: len(number) - len(variant)]
        major, dot, minor = number.partition(".") if "." in number else (number[:-1], "", number[-1:])
        digits = major + minor
        if not (digits.isascii() and digits.isdigit() and major and len(minor) == 1) or (prefix and dot):
            raise ValueError(f"{text!r} is not a GPU architecture")
        return cls(int(major), int(minor), variant)

    @property
    def capability(self) -> "tuple[int, int]":
        """The compute capability: (9, 0)."""
        return self.major, self.minor

    @property
    def number(self) -> str:
        """In manifests: "90a"."""
        return f"{self.major}{self.minor}{self.variant}"

    @property
    def dotted(self) -> str:
        """In NVIDIA's tables: "9.0a"."""
        return f"{self.major}.{self.minor}{self.variant}"

    @property
    def sm(self) -> str:
        """nvcc's name for machine code: "sm_90a"."""
        return f"sm_{self.number}"

    @property
    def compute(self) -> str:
        """nvcc's name for PTX: "compute_90a"."""
        return f"compute_{self.number}"

    def of_image(self, kind: str) -> str:
        """Return its name in lists of images: "sm_90a" for a "cubin", "compute_90a" for PTX and LTO-IR."""
        return self.sm if kind == "cubin" else self.compute


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
