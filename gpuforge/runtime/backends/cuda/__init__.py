"""Runs machine code and PTX on NVIDIA's GPUs, loaded by the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import runs_on
from ...arch import Arch
from ...decide import gpu_refusal
from ...driver import NoDriver, open_driver
from ...index import Module
from ...machine import Probe
from ...signature import Parameter
from ...values import Build, Image, Reason, Verdict, Version, dotted
from .. import Request, owner_of
from .context import Context, Function, current_place, given_context, primary_context
from .kernel import Kernel, LoadedKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...index import BuildPlace
    from .. import Here


def look(machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> None:
    """Return nothing: the driver and its devices are facts of the machine."""


def judge(image: Image, build: Build, here: Here) -> Verdict:
    """Judge an image by its architecture; a file of the user, which was not read, is always accepted."""
    arch = image.built_for
    if not isinstance(arch, Arch):
        return Verdict.of(here.obstacle or build.failure, Reason("unread", {"variable": image.variable}))
    refused = here.obstacle or gpu_refusal(image, arch, here) or build.failure
    return Verdict.of(refused, _merit(image, arch, here.gpu))


def make(request: Request, image: Image, module: Module, place: BuildPlace) -> Kernel | None:
    """Return a kernel of a module, which the driver loads once, for any number of its images that fit."""
    return load(request, image, module)


def _merit(image: Image, arch: Arch, gpu: Version) -> Reason:
    if image.about.has_ptx:
        return Reason("jit", {"here": dotted(gpu)})
    if runs_on.is_exact(arch, gpu):
        return Reason("exact")
    return Reason("same-major", {"built": dotted(arch.capability), "here": dotted(gpu)})


def context_for(machine: Probe, driver: tuple[str, ...], device: int | None, context: Any) -> Context | None:
    """Return the context to load kernels for, None if there is no such device.

    Without `device` and `context`, it is where a launch without arrays goes. Raises ValueError if no context is
    current, TypeError for anything but a context, DriverError.
    """
    opened = None if machine.problem or owner_of(context) else open_driver(driver)
    if opened is None or isinstance(opened, NoDriver):
        return None
    if context is not None:
        return context if isinstance(context, Context) else given_context(opened, context)
    place = current_place(opened) if device is None else device
    if isinstance(place, Context):
        return place
    return primary_context(opened, place) if 0 <= place < len(machine.devices) else None


def load(request: Request, image: Image, module: Module) -> Kernel | None:
    """Return a kernel of a module; None without a context. Raises Refused, DriverError.

    Code that the driver compiles is looked up in the kernel cache.
    """
    context = request.context
    if context is None:
        return None
    return kernel_of(request, context, _function(request, context, image, module))


def kernel_of(request: Request, context: Context, function: Function) -> Kernel:
    """Return the kernel of a request, loaded in one context; raises DriverError."""
    loaded = LoadedKernel(request.entry.name, context, function)
    entry = request.entry
    if entry.parameters is None:
        with context.current():
            sizes = context.driver.parameter_sizes(loaded.handle)
        if sizes is not None:
            entry = entry._replace(parameters=tuple(Parameter("", size) for size in sizes))
    return Kernel(loaded, demand=request.demand, load=request.elsewhere, entry=entry, env=request.env)


def _function(request: Request, context: Context, image: Image, module: Module) -> Function:
    compiled = _kept_code(request, context, module) if image.about.has_ptx else None
    return compiled or context.function(request.name, module.sha256 or module.file, module.read)


def _kept_code(request: Request, context: Context, module: Module) -> Function | None:
    """Return what the driver made of PTX, from the kernel cache if it is there; None if that is not possible.

    A wheel without PTX does not have these modules: only its users can have brought PTX, which the driver keeps.
    """
    try:
        from ...cache import KernelCache
        from ...jit import function
    except ImportError:
        return None
    return function(request.name, module, context, KernelCache.of_user(request.env), use=request.use_cache)
