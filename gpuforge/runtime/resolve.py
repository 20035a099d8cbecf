"""Which image of a module can run on a machine, and why the others cannot: one pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import runs_on
from .arch import Arch
from .probe import Probe

DISABLE_GPU = "GPUFORGE_DISABLE_GPU"

Version = tuple[int, int]


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
    def parsed(self) -> Arch:
        """`arch` as a value; raises ValueError when it is not of a known form."""
        return Arch.parse(self.arch)

    @property
    def label(self) -> str:
        """Its name for people: "cubin sm_80", "PTX compute_120"."""
        return f"{'PTX' if self.kind == 'ptx' else self.kind} {self.arch}"


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


_LIMITS = {
    runs_on.ALONE: "runs on {built} alone",
    runs_on.FAMILY: "runs on the family of {built} alone",
    runs_on.EMBEDDED_ALONE: "runs on {built} alone, as embedded GPUs share no binaries",
    runs_on.SAME_MAJOR: "runs on {major}.x from {built}",
    runs_on.NEWER: "is for {built} and newer",
}


def _architecture_refusal(image: Image, capability: Version) -> str:
    runs = runs_on.ptx_mismatch if image.kind == "ptx" else runs_on.binary_mismatch
    mismatch = runs(image.parsed, capability)
    if mismatch is None:
        return ""
    built = _dotted(mismatch.built.capability)
    limit = _LIMITS[mismatch.limit].format(built=built, major=mismatch.built.major)
    return f"{limit}; this device is {_dotted(capability)}"


def _driver_refusal(image: Image, driver: Version) -> str:
    if image.kind == "ptx":
        isa = image.isa or (0, 0)
        needed = runs_on.driver_for_ptx(isa)
        what = f"PTX {_dotted(isa)} needs a driver for CUDA {_dotted(needed)}"
    else:
        needed = runs_on.driver_for_binary(image.toolkit)
        release = str(needed[0]) if needed[1] == 0 else _dotted(needed)
        what = f"code of CUDA {_dotted(image.toolkit)} needs a driver for CUDA {release}"
    return f"{what} or newer; this one is for {_dotted(driver)}" if driver < needed else ""


def _merit(image: Image, capability: Version) -> str:
    if image.kind == "ptx":
        return f"the driver compiles it for {_dotted(capability)} when it is first loaded"
    if runs_on.is_exact(image.parsed, capability):
        return "built for this very architecture"
    return f"built for {_dotted(image.parsed.capability)}, whose code {_dotted(capability)} runs too"


def _preference(candidate: Candidate) -> tuple[bool, int, int, int]:
    image = candidate.image
    if image is None:
        return True, 0, 0, 0
    arch = image.parsed
    return image.kind == "ptx", -arch.major, -arch.minor, ("a", "f", "").index(arch.variant)


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
