"""Which build of a module, and which image in it, can run on a machine, and why the others cannot: one pure function.

What a set has is looked up before (`look.py`), what the machine has too (`machine.py`); nothing is opened here.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple, Optional, Union

from . import cpu, runs_on
from .arch import Arch
from .cpu_level import CpuLevel
from .image_kind import ImageKind, kind_of
from .iree.suitable import suitable
from .machine import Nvrtc, Probe
from .reason import MERITS, Reason, dotted
from .switches import gpu_disabled, switched_off

Version = tuple[int, int]


class Origin(IntEnum):
    """Where a build comes from, in the order in which builds are tried."""

    EXPLICIT = 0  # named by a variable of the environment
    USER_BUILD = 1  # compiled by `python -m PACKAGE._gpuforge compile`
    CACHED_BUILD = 2  # sources in the wheel, compiled by NVRTC at first use, kept in the kernel cache
    SHIPPED = 3  # in the wheel
    OPENCL = 4  # sources in the wheel, compiled by an OpenCL device's driver at first use
    CPU = 5  # a library in the wheel, or the caller's own code

    @property
    def label(self) -> str:
        """Its name for people and for JSON: "user build"."""
        return _LABELS[self]


_LABELS = ("environment", "user build", "cached build", "shipped", "OpenCL", "CPU")


class Image(NamedTuple):
    """One image of a file; `about` says what its kind is.

    `built_for` is the architecture of GPU code and the level of code for CPUs; of other kinds it is what the index has,
    "" where nothing was read. `toolkit` is the CUDA version of the compiler that wrote code for NVIDIA's driver; `isa`
    is the PTX ISA, None but for PTX. `variable` of the environment names a file of the kind "unread".
    """

    kind: str
    built_for: "Union[Arch, CpuLevel, str]" = ""
    toolkit: Version = (0, 0)
    isa: Optional[Version] = None
    variable: str = ""

    @property
    def about(self) -> ImageKind:
        """Its kind."""
        return kind_of(self.kind)

    @property
    def label(self) -> str:
        """Its name for people: "cubin sm_80", "PTX compute_120"."""
        built_for = self.built_for if isinstance(self.built_for, str) else self.built_for.of_image(self.kind)
        return f"{self.about.label} {built_for}".rstrip()


class Build(NamedTuple):
    """One build of a module: where it comes from, the file (or its folder), and its images.

    `problem` says why it cannot be used at all: a damaged index, a missing file. `failure` says why the driver refused
    it when it was last tried. Of a shipped library there are `name`, the object that it was made for, and `compiler`.
    """

    origin: Origin
    place: str
    images: "tuple[Image, ...]" = ()
    problem: Optional[Reason] = None
    failure: Optional[Reason] = None
    wheel: str = ""  # the kernels wheel that it is in; "" for the package's own
    name: str = ""
    compiler: str = ""


CPU = Build(Origin.CPU, "")
HOST_LIBRARY = Image("library", CpuLevel())


class Candidate(NamedTuple):
    """One way to run a kernel: an image of a build, accepted or refused, with the reason.

    `image` is None for the CPU, and for a build of which no image could be read.
    """

    build: Build
    image: Optional[Image]
    accepted: bool
    reason: Reason

    @property
    def origin(self) -> Origin:
        """Where the build comes from."""
        return self.build.origin

    @property
    def label(self) -> str:
        """Its name for people: "cubin sm_80", "CPU", "user build cubin sm_80"."""
        if self.origin is Origin.SHIPPED:
            return " of ".join(filter(None, (self.shipped_image or self.origin.label, self.build.wheel)))
        return f"{self.origin.label} {self.image.label if self.image else ''}".rstrip()

    @property
    def shipped_image(self) -> str:
        """What of a shipped build it is, for people: "cubin sm_80"; "" for the only library, or without an image."""
        image = self.image.label if self.image else ""
        return f"{self.build.name} {image}".lstrip() if image not in {"", "library"} else ""


def resolve(
    builds: Sequence[Build], machine: Probe, env: Mapping[str, str], *, device: int = 0
) -> "tuple[Candidate, ...]":
    """Judge every image of every build for device number `device`, and the CPU, which comes last.

    The CPU is the set's library for it; where a set has none, the caller's own code, which is always there.

    The accepted ones come first, the one that will run at their head: by origin, and of one origin the image of this
    very architecture, the nearest lower one of the same major, then PTX, then libraries for CPUs, that of the highest
    level first. The refused follow in the same order of origins, as given.
    """
    own = () if any(build.origin is Origin.CPU for build in builds) else (CPU,)
    return judge([*builds, *own], machine, env, device=device)


def judge(
    builds: Sequence[Build], machine: Probe, env: Mapping[str, str], *, device: int = 0
) -> "tuple[Candidate, ...]":
    """Judge and order builds as `resolve` does, and add none."""
    obstacle = _obstacle(machine, env, device)
    gpu = machine.devices[device].capability if obstacle is None else (0, 0)
    ordered = sorted(builds, key=lambda build: build.origin)
    off = switched_off(env) if gpu_disabled(env) else None
    verdict = partial(_judge, machine=machine, gpu=gpu, obstacle=obstacle, off=off, device=device)
    judged = [candidate for build in ordered for candidate in _candidates(build, verdict)]
    accepted = sorted((c for c in judged if c.accepted), key=_preference)
    return (*accepted, *(c for c in judged if not c.accepted))


def _obstacle(machine: Probe, env: Mapping[str, str], device: int) -> Optional[Reason]:
    """Return why no image at all can run, or None."""
    if gpu_disabled(env):
        return switched_off(env)
    if machine.driver is None:
        return Reason("no-usable-gpu")
    if not machine.devices:
        return Reason("no-devices")
    if not 0 <= device < len(machine.devices):
        return Reason("no-such-device", {"device": device, "count": len(machine.devices)})
    return None


def _candidates(build: Build, judge: "Callable[[Build, Image], Reason]") -> "list[Candidate]":
    if build is CPU:
        return [Candidate(build, None, True, Reason("own-code"))]
    if build.problem is not None:
        return [Candidate(build, image, False, build.problem) for image in build.images or (None,)]
    verdicts = [(image, judge(build, image)) for image in build.images]
    return [Candidate(build, image, reason.kind in MERITS, reason) for image, reason in verdicts]


def _judge(
    build: Build,
    image: Image,
    *,
    machine: Probe,
    gpu: Version,
    obstacle: Optional[Reason],
    off: Optional[Reason],
    device: int,
) -> Reason:
    """Return why an image can run here, or why it cannot."""
    loader, built_for = image.about.loader, image.built_for
    if loader == "system" and isinstance(built_for, CpuLevel):
        return cpu.refusal(built_for, machine.cpu) or build.failure or _merit_on_cpu(build, built_for)
    if loader == "OpenCL":
        return off or _opencl(machine, device, build.failure)
    if loader == "IREE":
        refusal = off
        if isinstance(built_for, Arch):
            refusal = obstacle or _gpu_refusal(image, built_for, gpu, machine)
        elif isinstance(built_for, CpuLevel):
            refusal = cpu.refusal(built_for, machine.cpu)
        judged = suitable(image.kind, machine.iree, device)
        return refusal or (judged if judged.kind not in MERITS else build.failure) or judged
    if obstacle is not None:
        return obstacle
    if loader == "NVRTC":
        return _nvrtc(machine, gpu, build.failure)
    if loader != "CUDA":
        return Reason("not-loadable")
    if not isinstance(built_for, Arch):
        return build.failure or Reason("unread", {"variable": image.variable})
    return _gpu_refusal(image, built_for, gpu, machine) or build.failure or _merit(image, built_for, gpu)


def _nvrtc(machine: Probe, gpu: Version, failure: Optional[Reason]) -> Reason:
    found = machine.nvrtc
    if not isinstance(found, Nvrtc):
        return found or Reason("not-looked-for", {"what": "NVRTC"})
    target = found.target(gpu)
    if target is None:
        return Reason("nvrtc-older", {"compiler": found.label, "here": dotted(gpu)})
    refusal = _driver_refusal(Image("cubin", target, found.version), machine.driver or (0, 0))
    return refusal or failure or Reason("nvrtc", {"compiler": found.label, "arch": target.sm})


def _opencl(machine: Probe, device: int, failure: Optional[Reason]) -> Reason:
    found = machine.opencl
    if found is None or isinstance(found, Reason):
        return found or Reason("not-looked-for", {"what": "OpenCL"})
    if not 0 <= device < len(found):
        return Reason("no-such-opencl-device", {"device": device, "count": len(found)})
    return failure or Reason("opencl", {"device": found[device].name})


_MISMATCHES = {
    runs_on.ALONE: "alone",
    runs_on.FAMILY: "family",
    runs_on.EMBEDDED_ALONE: "embedded",
    runs_on.SAME_MAJOR: "same-major-only",
    runs_on.NEWER: "newer",
}


def _gpu_refusal(image: Image, arch: Arch, gpu: Version, machine: Probe) -> Optional[Reason]:
    mismatch = (runs_on.ptx_mismatch if image.about.has_ptx else runs_on.binary_mismatch)(arch, gpu)
    if mismatch is None:
        return _driver_refusal(image, machine.driver or (0, 0))
    built = dotted(mismatch.built.capability)
    facts = {"built": built, "major": mismatch.built.major, "here": dotted(gpu)}
    return Reason(_MISMATCHES[mismatch.limit], facts)


def _driver_refusal(image: Image, driver: Version) -> Optional[Reason]:
    found = dotted(driver)
    if image.about.has_ptx:
        isa = image.isa or (0, 0)
        needed = runs_on.driver_for_ptx(isa)
        facts = {"isa": dotted(isa), "needed": dotted(needed), "found": found}
        return Reason("driver-older-than-ptx", facts) if driver < needed else None
    needed = runs_on.driver_for_binary(image.toolkit)
    release = str(needed[0]) if needed[1] == 0 else dotted(needed)
    facts = {"toolkit": dotted(image.toolkit), "needed": release, "found": found}
    return Reason("driver-older-than-code", facts) if driver < needed else None


def _merit(image: Image, arch: Arch, gpu: Version) -> Reason:
    if image.about.has_ptx:
        return Reason("jit", {"here": dotted(gpu)})
    if runs_on.is_exact(arch, gpu):
        return Reason("exact")
    return Reason("same-major", {"built": dotted(arch.capability), "here": dotted(gpu)})


def _merit_on_cpu(build: Build, level: CpuLevel) -> Reason:
    if level.name:
        return Reason("made-for-level", {"level": level.name})
    facts = {"name": build.name, "compiler": build.compiler}
    return Reason("made-there", facts) if build.name else Reason("no-gpu-needed")


def _preference(candidate: Candidate) -> "tuple[int, int, int, int, int]":
    image, arch = candidate.image, candidate.image.built_for if candidate.image else ""
    if isinstance(arch, CpuLevel):
        return candidate.origin, 2, -arch.rank, 0, 0
    if image is not None and image.about.loader == "IREE" and not isinstance(arch, Arch):
        return candidate.origin, 3 if candidate.reason.kind == "iree-software" else 1, 0, 0, 0
    if image is None or not isinstance(arch, Arch):
        return candidate.origin, 0, 0, 0, 0
    variant = ("a", "f", "").index(arch.variant)
    return candidate.origin, int(image.about.has_ptx), -arch.major, -arch.minor, variant
