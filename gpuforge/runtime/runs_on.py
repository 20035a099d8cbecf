"""Decides what runs where: the machine code and the PTX that a GPU can run, and the drivers that they need.

Binary and PTX compatibility: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility
Architecture- and family-specific code:
https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html
Drivers: https://docs.nvidia.com/deploy/cuda-compatibility/

A driver is identified by the newest CUDA version that it supports, as in cuDriverGetVersion: (12, 4).
"""

from typing import NamedTuple

from .arch import Arch

Version = tuple[int, int]

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

ALONE = "alone"  # runs on exactly this compute capability
FAMILY = "family"  # runs on this one and the later ones of its family
EMBEDDED_ALONE = "embedded"  # like ALONE, because one of the two GPUs is an embedded one
SAME_MAJOR = "same-major"  # runs on this one and the later ones of the same major
NEWER = "newer"  # PTX: compiles for this one and everything later


class Mismatch(NamedTuple):
    """Why an image does not run on a GPU: `limit` is the limit of its architecture."""

    limit: str
    built: Arch


def binary_mismatch(arch: Arch, gpu: Version) -> "Mismatch | None":
    """Return why machine code for `arch` does not run on a GPU of this compute capability, None if it does."""
    built, here = _today(arch.capability), _today(gpu)
    later = built[0] == here[0] and built[1] <= here[1]
    if built == here:
        return None
    if arch.variant == "a":
        return Mismatch(ALONE, arch)
    if arch.variant == "f":
        return None if later else Mismatch(FAMILY, arch)
    if built in EMBEDDED or here in EMBEDDED:
        return Mismatch(EMBEDDED_ALONE, arch)
    return None if later else Mismatch(SAME_MAJOR, arch)


def ptx_mismatch(arch: Arch, gpu: Version) -> "Mismatch | None":
    """Return why a driver cannot compile PTX for `arch` for this GPU, None if it can."""
    built, here = _today(arch.capability), _today(gpu)
    if arch.variant == "a":
        return None if built == here else Mismatch(ALONE, arch)
    if arch.variant == "f":
        return None if built[0] == here[0] and built[1] <= here[1] else Mismatch(FAMILY, arch)
    return None if built <= here else Mismatch(NEWER, arch)


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
    """Return whether code for `arch` was built for exactly this compute capability."""
    return _today(arch.capability) == _today(gpu)


def _today(capability: Version) -> Version:
    return RENAMED.get(capability, capability)
