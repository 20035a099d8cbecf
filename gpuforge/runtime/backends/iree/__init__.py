"""Functions of IREE's modules, run by `iree.runtime` on the device of one of its drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ... import cpu
from ...arch import Arch
from ...decide import gpu_refusal
from ...driver import Probe
from ...values import Build, Image, Reason, Verdict
from .devices import devices_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...values import BuildPlace, Module
    from .. import Here, Request
    from .kernel import IreeKernel

    # the names of the devices for each kind of image, or the reason why there are none
    Found = Mapping[str, tuple[str, ...] | Reason]


_SOFTWARE = ("llvmpipe", "SwiftShader")  # Vulkan devices that are the CPU, by the beginning of their names


def look(machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> Found:
    """Return the devices of the drivers that run the places' modules."""

    return devices_for(places, env)


def judge(image: Image, build: Build, here: Here) -> Verdict:
    """Judge an image by its target, and by the devices of its driver."""
    refusal = here.off
    if isinstance(image.built_for, Arch):
        refusal = here.obstacle or gpu_refusal(image, image.built_for, here)
    elif image.about.built_for == "CPU":
        refusal = cpu.refusal(cpu.CpuLevel(image.built_for), here.machine.cpu)
    found = _device(image, here)
    refusal = refusal or (build.failure if found.accepted else None)
    return found if refusal is None else Verdict(False, refusal)


def make(request: Request, image: Image, module: Module, place: BuildPlace) -> IreeKernel:
    """Return a function of a module; raises Refused, DriverError."""
    from .kernel import load

    return load(request.name, module, image.kind, request.device, request.given)


def _device(image: Image, here: Here) -> Verdict:
    """Return whether a device runs an image, and which. For the CPU, its number is ignored."""
    driver, found = image.about.iree_driver, here.machine.found.get("IREE", {})
    names = found.get(image.kind, Reason("not-looked-for", {"what": "IREE"}))
    if isinstance(names, Reason):
        return Verdict(False, names)
    number = 0 if image.about.built_for == "CPU" else here.device
    if not 0 <= number < len(names):
        facts = {"driver": driver, "device": here.device, "count": len(names)}
        return Verdict(False, Reason("no-such-iree-device", facts))
    name = names[number]
    kind = "iree-software" if name.startswith(_SOFTWARE) else "iree"
    return Verdict(True, Reason(kind, {"driver": driver, "device": name}))
