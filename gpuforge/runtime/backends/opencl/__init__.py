"""OpenCL sources that a device's driver compiles at their first use, through pyopencl.

Only this folder imports pyopencl, and only when a kernel is requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...driver import Probe
from ...values import Build, Image, Reason, Verdict
from .. import owner_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...values import BuildPlace, Module
    from .. import Here, Request
    from .devices import OpenClDevice
    from .kernel import OpenClKernel


def look(
    machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]
) -> tuple[OpenClDevice, ...] | Reason | None:
    """Return the devices that the sources can be compiled for, or why there are none."""
    from .devices import devices
    from .load import needs_of

    sources = places[-1].sources
    return devices(env, needs_of(sources)) if sources else None


def judge(image: Image, build: Build, here: Here) -> Verdict:
    """Judge sources by the device with the number of `here`."""
    if here.off is not None:
        return Verdict(False, here.off)
    found: tuple[OpenClDevice, ...] | Reason | None = here.machine.found.get("OpenCL")
    if found is None or isinstance(found, Reason):
        return Verdict(False, found or Reason("not-looked-for", {"what": "OpenCL"}))
    if not 0 <= here.device < len(found):
        facts = {"device": here.device, "count": len(found)}
        return Verdict(False, Reason("no-such-opencl-device", facts))
    return Verdict.of(build.failure, Reason("opencl", {"device": found[here.device].name}))


def make(request: Request, image: Image, module: Module, place: BuildPlace) -> OpenClKernel | None:
    """Return a kernel of a source, from the kernel cache if it is there.

    It is for that device, or for the device of a context of pyopencl. Raises Refused with the compiler's log,
    DriverError.
    """
    from .load import Compilation, load

    if place.sources is None:
        return None
    compilation = Compilation.of(module, place.sources, request.env, use_cache=request.use_cache)
    own = request.given if owner_of(request.given) else None
    return load(request.name, compilation, request.env, request.device, own)
