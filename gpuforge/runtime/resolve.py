"""Which image of a module can run on a machine, and why the others cannot: one pure function.

Compatibility of binaries and PTX:
https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility
https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .probe import Probe

DISABLE_GPU = "GPUFORGE_DISABLE_GPU"

Version = tuple[int, int]

# PTX ISA -> the CUDA release that brought it, and so the least that a driver must support to compile it.
# https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes
_ISA_TO_CUDA: dict[Version, Version] = {
    **{(6, minor): (9, minor) for minor in range(3)},
    **{(6, minor + 3): (10, minor) for minor in range(3)},
    **{(7, minor): (11, minor) for minor in range(9)},
    **{(8, minor): (12, minor) for minor in range(6)},
    (8, 6): (12, 7),
    (8, 7): (12, 8),
    (8, 8): (12, 9),
    **{(9, minor): (13, minor) for minor in range(3)},
}
# Jetson and Drive: no binary compatibility among these, nor between them and others of their major.
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility
_TEGRA: frozenset[Version] = frozenset({(5, 3), (6, 2), (7, 2), (8, 7)})

_ARCH = re.compile(r"(?:sm|compute)_([0-9]+)([0-9])([af]?)")


@dataclass(frozen=True)
class Image:
    """One image in a fatbin: a "cubin", "ptx", or another kind, which the driver does not load by itself.

    `arch` is "sm_90a" or "compute_120"; `isa` is the PTX ISA, None but for PTX.

    `toolkit` is the CUDA version of the compiler that wrote it.
    """

    kind: str
    arch: str
    toolkit: Version
    isa: Version | None = None

    @property
    def loadable(self) -> bool:
        """Whether the driver can run it as it is; it cannot for "lto-ir", which a linker has to finish."""
        return self.kind in {"cubin", "ptx"}

    @property
    def capability(self) -> Version:
        """The compute capability it was built for; raises ValueError when `arch` is not of the known form."""
        return self._parsed()[0]

    @property
    def variant(self) -> str:
        """The letter of `arch`: "a" (this architecture alone), "f" (its family) or "" (what follows it)."""
        return self._parsed()[1]

    @property
    def label(self) -> str:
        """Its name for people: "cubin sm_80", "PTX compute_120"."""
        return f"{'PTX' if self.kind == 'ptx' else self.kind} {self.arch}"

    def _parsed(self) -> tuple[Version, str]:
        match = _ARCH.fullmatch(self.arch)
        if match is None:
            raise ValueError(f"{self.arch!r} is not a GPU architecture")
        return (int(match[1]), int(match[2])), match[3]


@dataclass(frozen=True)
class Candidate:
    """One way to run a kernel, accepted or refused, with the reason. Without an image it is the CPU."""

    image: Image | None
    accepted: bool
    reason: str

    @property
    def label(self) -> str:
        """Its name for people: "cubin sm_80", "CPU"."""
        return self.image.label if self.image else "CPU"


def resolve(
    images: Sequence[Image], machine: Probe, env: Mapping[str, str], *, device: int = 0
) -> tuple[Candidate, ...]:
    """Judge every image for device number `device`, and the CPU.

    The accepted ones come first, the one that will run at their head: the cubin of this very architecture,
    then the nearest lower one of the same major, then PTX, then the CPU. The refused follow as given.
    """
    obstacle = _obstacle(machine, env, device)
    if obstacle:
        judged = [Candidate(image, False, obstacle) for image in images]
    else:
        judged = [_judge(image, machine, machine.devices[device].capability) for image in images]
    accepted = sorted((c for c in judged if c.accepted), key=_preference)
    cpu = Candidate(None, True, "needs no GPU")
    return (*accepted, cpu, *(c for c in judged if not c.accepted))


def _obstacle(machine: Probe, env: Mapping[str, str], device: int) -> str:
    """Return why no image at all can run, or nothing."""
    if gpu_disabled(env):
        return "the GPU is switched off"
    if machine.driver is None:
        return "no usable NVIDIA GPU"
    if not machine.devices:
        return "the driver sees no GPU"
    if not 0 <= device < len(machine.devices):
        return f"there is no device {device}: the driver sees {len(machine.devices)}"
    return ""


def gpu_disabled(env: Mapping[str, str]) -> bool:
    """Tell whether the environment switches the GPU off: GPUFORGE_DISABLE_GPU set, and not to "0"."""
    return env.get(DISABLE_GPU, "") not in {"", "0"}


def _judge(image: Image, machine: Probe, capability: Version) -> Candidate:
    if not image.loadable:
        return Candidate(image, False, "only a cubin or PTX can be loaded")
    driver = machine.driver or (0, 0)
    refusal = _architecture_refusal(image, capability) or _driver_refusal(image, driver)
    return Candidate(image, not refusal, refusal or _merit(image, capability))


def _architecture_refusal(image: Image, capability: Version) -> str:
    built, variant = image.capability, image.variant
    here = f"this device is {_dotted(capability)}"
    if variant == "a":
        return "" if built == capability else f"runs on {_dotted(built)} alone; {here}"
    one_line = built[0] == capability[0] and built[1] <= capability[1]
    if variant == "f":
        return "" if one_line else f"runs on the family of {_dotted(built)} alone; {here}"
    if image.kind == "ptx":
        return "" if built <= capability else f"is for {_dotted(built)} and newer; {here}"
    if built == capability:
        return ""
    if built in _TEGRA or capability in _TEGRA:
        return f"runs on {_dotted(built)} alone, as embedded GPUs share no binaries; {here}"
    return "" if one_line else f"runs on {built[0]}.x from {_dotted(built)}; {here}"


def _driver_refusal(image: Image, driver: Version) -> str:
    if image.kind == "ptx":
        isa = image.isa or (0, 0)
        # A newer ISA than the table knows: at least as much as its last row; the driver has the last word.
        needed = _ISA_TO_CUDA.get(isa, max(_ISA_TO_CUDA.values()) if isa > max(_ISA_TO_CUDA) else (0, 0))
        what = f"PTX {_dotted(isa)} needs a driver for CUDA {_dotted(needed)}"
    else:
        # Binaries run on every driver of their toolkit's major ("minor version compatibility"):
        # https://docs.nvidia.com/deploy/cuda-compatibility/
        needed = (image.toolkit[0], 0)
        what = f"code of CUDA {_dotted(image.toolkit)} needs a driver for CUDA {image.toolkit[0]}"
    return f"{what} or newer; this one is for {_dotted(driver)}" if driver < needed else ""


def _merit(image: Image, capability: Version) -> str:
    if image.kind == "ptx":
        return f"the driver compiles it for {_dotted(capability)} when it is first loaded"
    if image.capability == capability:
        return "built for this very architecture"
    return f"built for {_dotted(image.capability)}, whose code {_dotted(capability)} runs too"


def _preference(candidate: Candidate) -> tuple[bool, int, int, int]:
    image = candidate.image
    if image is None:
        return True, 0, 0, 0
    major, minor = image.capability
    return image.kind == "ptx", -major, -minor, ("a", "f", "").index(image.variant)


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
