"""CUDA sources that NVIDIA's runtime compiler compiles at their first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...image import Build, Image
from ...machine import Probe
from ...reason import Reason, Verdict, dotted
from ..cuda import driver_refusal
from .library import Nvrtc, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...build_place import BuildPlace
    from ...index import Module
    from ...kernel import Kernel
    from .. import Here, Request


def look(machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> Nvrtc | Reason | None:
    """Return the library that compiles here, or why there is none; None without a driver."""
    sources = places[-1].sources
    return find(env, machine.driver, sources.install) if machine.driver and sources else None


def judge(image: Image, build: Build, here: Here) -> Verdict:
    """Judge sources by the architectures of the compiler, and by the driver that loads the result."""
    if here.obstacle is not None:
        return Verdict(False, here.obstacle)
    found: Nvrtc | Reason | None = here.machine.found.get("NVRTC")
    if not isinstance(found, Nvrtc):
        return Verdict(False, found or Reason("not-looked-for", {"what": "NVRTC"}))
    target = found.target(here.gpu)
    if target is None:
        return Verdict(False, Reason("nvrtc-older", {"compiler": found.label, "here": dotted(here.gpu)}))
    refusal = driver_refusal(Image("cubin", target, found.version), here.machine.driver or (0, 0))
    merit = Reason("nvrtc", {"compiler": found.label, "arch": target.sm})
    return Verdict.of(refusal or build.failure, merit)


def make(request: Request, image: Image, module: Module, place: BuildPlace) -> Kernel | None:
    """Return a kernel of a source, from the kernel cache if it is there; None without a context.

    Raises Refused with the compiler's log, DriverError.
    """
    from ...cache import KernelCache
    from ..cuda.load import kernel_of
    from .compiled import function

    compiler: Nvrtc = request.machine.found["NVRTC"]
    if request.context is None or place.sources is None:
        return None
    cache = KernelCache.of_user(request.env)
    context, use = request.context, request.use_cache
    compiled = function(request.name, module, place.sources, compiler, context, cache, use=use)
    return kernel_of(request, context, compiled)
