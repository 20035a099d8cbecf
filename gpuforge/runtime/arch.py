"""GPU architectures: parsed from every spelling in use, and the rules of which code runs on which GPU and driver.

Binary and PTX compatibility: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility
Variants: https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html
Drivers: https://docs.nvidia.com/deploy/cuda-compatibility/

A driver is identified by the newest CUDA version that it supports, as in cuDriverGetVersion: (12, 4).
"""

from typing import NamedTuple

Version = tuple[int, int]

_PREFIXES = ("sm_", "compute_", "lto_")


class Arch(NamedTuple):
    """A compute capability to compile for, and the GPUs that run the result; ordered by number, then variant.

    `variant` is "a" (only this architecture), "f" (its family) or "" (this one and later ones).
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
    def capability(self) -> Version:
        return self.major, self.minor

    @property
    def number(self) -> str:
        return f"{self.major}{self.minor}{self.variant}"

    @property
    def dotted(self) -> str:
        return f"{self.major}.{self.minor}{self.variant}"

    @property
    def sm(self) -> str:
        return f"sm_{self.number}"

    @property
    def compute(self) -> str:
        return f"compute_{self.number}"

    def of_image(self, kind: str) -> str:
        return self.sm if kind == "cubin" else self.compute


# PTX ISA -> the first CUDA release that writes it, which a driver must support to compile it.
# https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes gpuforge/cuda/data/cuda.toml has the same pairs
# with each release's driver; a test compares them.
PTX_ISA: "dict[Version, Version]" = {
    (4, 2): (7, 0),
    (4, 3): (7, 5),
    (5, 0): (8, 0),
    **{(6, minor): (9, minor) for minor in range(3)},
    **{(6, minor + 3): (10, minor) for minor in range(3)},
    **{(7, minor): (11, minor) for minor in range(9)},
    **{(8, minor): (12, minor) for minor in range(6)},
    **{(8, minor): (12, minor + 1) for minor in range(6, 9)},
    **{(9, minor): (13, minor) for minor in range(6)},
}
# Jetson, DRIVE and other Tegra: "Binary compatibility is supported only for the desktop" (the guide above). Seen on an
# Orin: sm_80 gives "no kernel image is available", sm_87 and PTX run (https://github.com/jax-ml/jax/pull/40492).
EMBEDDED: "frozenset[Version]" = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (11, 0)})
RENAMED: "dict[Version, Version]" = {(10, 1): (11, 0)}  # sm_101 of CUDA 12 is sm_110 of CUDA 13
MINORS_AGREE = 11  # the first CUDA major whose drivers of any minor run the machine code of all its minors


def binary_mismatch(arch: Arch, gpu: Version) -> "str | None":
    """Return why machine code for `arch` does not run on a GPU of this compute capability, None if it does.

    It is the kind of a `Reason`.
    """
    built, here = _today(arch.capability), _today(gpu)
    later = built[0] == here[0] and built[1] <= here[1]
    if built == here:
        return None
    if arch.variant == "a":
        return "alone"
    if arch.variant == "f":
        return None if later else "family"
    if built in EMBEDDED or here in EMBEDDED:
        return "embedded"
    return None if later else "same-major-only"


def ptx_mismatch(arch: Arch, gpu: Version) -> "str | None":
    """Return why a driver cannot compile PTX for `arch` for this GPU, as the kind of a `Reason`; None if it can."""
    built, here = _today(arch.capability), _today(gpu)
    if arch.variant == "a":
        return None if built == here else "alone"
    if arch.variant == "f":
        return None if built[0] == here[0] and built[1] <= here[1] else "family"
    return None if built <= here else "newer"


def driver_for_ptx(isa: Version) -> Version:
    """Return the CUDA version that a driver must support to compile this PTX ISA.

    For an ISA newer than the table it is at least that of the last row; for an older one (0, 0).
    """
    newest = max(PTX_ISA)
    return PTX_ISA.get(isa, PTX_ISA[newest] if isa > newest else (0, 0))


def driver_for_binary(toolkit: Version) -> Version:
    """Return the CUDA version that a driver must support to run machine code of this toolkit.

    From CUDA 11 on it is the first release of the toolkit's major ("minor version compatibility").
    """
    return (toolkit[0], 0) if toolkit[0] >= MINORS_AGREE else toolkit


def is_exact(arch: Arch, gpu: Version) -> bool:
    return _today(arch.capability) == _today(gpu)


def _today(capability: Version) -> Version:
    return RENAMED.get(capability, capability)
