"""A GPU architecture: parsed from every spelling in use, ordered, and written in the form of each tool."""

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
