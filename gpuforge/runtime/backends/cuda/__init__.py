"""Runs machine code and PTX on NVIDIA's GPUs, loaded by the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ... import runs_on
from ...arch import Arch
from ...image import Build, Image, Version
from ...machine import Probe
from ...reason import Reason, Verdict, dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...build_place import BuildPlace
    from ...index import Module
    from ...kernel import Kernel
    from .. import Here, Request

_MISMATCHES = {
    runs_on.ALONE: "alone",
    runs_on.FAMILY: "family",
    runs_on.EMBEDDED_ALONE: "embedded",
    runs_on.SAME_MAJOR: "same-major-only",
    runs_on.NEWER: "newer",
}


def look(machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> None:
    """Return nothing: the driver and its devices are facts of the machine."""


def judge(image: Image, build: Build, here: Here) -> Verdict:
    """Judge an image by its architecture; a file of the user, which was not read, is always accepted."""
    arch = image.built_for
    if not isinstance(arch, Arch):
        return Verdict.of(here.obstacle or build.failure, Reason("unread", {"variable": image.variable}))
    refused = here.obstacle or refusal(image, arch, here) or build.failure
    return Verdict.of(refused, _merit(image, arch, here.gpu))


def make(request: Request, image: Image, module: Module, place: BuildPlace) -> Kernel | None:
    """Return a kernel of a module, which the driver loads once, for any number of its images that fit."""
    from .load import load

    return load(request, image, module)


def refusal(image: Image, arch: Arch, here: Here) -> Reason | None:
    """Return why code for an architecture does not run on the GPU of `here`, None if it does."""
    mismatch = (runs_on.ptx_mismatch if image.about.has_ptx else runs_on.binary_mismatch)(arch, here.gpu)
    if mismatch is None:
        return driver_refusal(image, here.machine.driver or (0, 0))
    built = dotted(mismatch.built.capability)
    facts = {"built": built, "major": mismatch.built.major, "here": dotted(here.gpu)}
    return Reason(_MISMATCHES[mismatch.limit], facts)


def driver_refusal(image: Image, driver: Version) -> Reason | None:
    """Return why a driver for this CUDA version is too old for an image, None if it is not."""
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
