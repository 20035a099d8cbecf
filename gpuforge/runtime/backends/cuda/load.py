"""Loads kernels through NVIDIA's driver, into the caller's context or a device's primary one."""

from __future__ import annotations

from typing import Any

from ...context import Context, Function, given_context, primary_context
from ...driver import NoDriver, open_driver
from ...image import Image
from ...index import Module
from ...kernel import Kernel
from ...machine import Probe
from .. import Request, owner_of


def context_for(machine: Probe, driver: tuple[str, ...], device: int, context: Any) -> Context | None:
    """Return the context to load kernels for, None if there is no such device.

    Raises ValueError if no context is current, TypeError for anything but a context, DriverError.
    """
    opened = None if machine.problem or owner_of(context) else open_driver(driver)
    if opened is None or isinstance(opened, NoDriver):
        return None
    if context is not None:
        return given_context(opened, context)
    return primary_context(opened, device) if 0 <= device < len(machine.devices) else None


def load(request: Request, image: Image, module: Module) -> Kernel | None:
    """Return a kernel of a module; None without a context. Raises Refused, DriverError.

    Code that the driver compiles is looked up in the kernel cache.
    """
    if request.context is None:
        return None
    return Kernel(request.name, request.context, _function(request, request.context, image, module))


def _function(request: Request, context: Context, image: Image, module: Module) -> Function:
    if image.about.has_ptx:
        from ... import jit
        from ...cache import KernelCache

        cache = KernelCache.of_user(request.env)
        compiled = jit.function(request.name, module, context, cache, use=request.use_cache)
        if compiled is not None:
            return compiled
    return context.function(request.name, module.sha256 or module.file, module.read)
