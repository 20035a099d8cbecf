"""Runs machine code and PTX on NVIDIA's GPUs, loaded by the driver into the caller's context or a primary one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...arch import Arch, is_exact
from ...decide import gpu_refusal
from ...driver import NoDriver, Probe, open_driver
from ...signature import Parameter
from ...values import Build, BuildPlace, Image, Module, Reason, Verdict, dotted
from .. import Here, Request, owner_of
from .kernel import Context, Function, Kernel, LoadedKernel, current_place, given_context, primary_context


def look(machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> None:
    """Return nothing: the driver and its devices are facts of the machine."""


def judge(image: Image, build: Build, here: Here) -> Verdict:
    arch = image.built_for
    if not isinstance(arch, Arch):
        return Verdict.of(here.obstacle or build.failure, Reason("unread", {"variable": image.variable}))
    if image.about.has_ptx:
        merit = Reason("jit", {"here": dotted(here.gpu)})
    elif is_exact(arch, here.gpu):
        merit = Reason("exact")
    else:
        merit = Reason("same-major", {"built": dotted(arch.capability), "here": dotted(here.gpu)})
    return Verdict.of(here.obstacle or gpu_refusal(image, arch, here) or build.failure, merit)


def make(request: Request, image: Image, module: Module, place: BuildPlace) -> Kernel | None:
    """Return a kernel of a module, which the driver loads once; None without a context. Raises Refused, DriverError."""
    context, function = request.context, None
    if context is None:
        return None
    if image.about.has_ptx:
        try:
            from ...cache import KernelCache
            from . import jit
        except (
            ImportError
        ):  # a wheel without PTX, which only its users can have brought: the driver keeps the code
            pass
        else:
            cache = KernelCache.of_user(request.env)
            function = jit.function(request.name, module, context, cache, use=request.use_cache)
    function = function or context.function(request.name, module.sha256 or module.file, module.read)
    return kernel_of(request, context, function, module.read)


def kernel_of(request: Request, context: Context, function: Function, read: Callable[[], bytes]) -> Kernel:
    entry = request.entry
    if entry.parameters is None:
        try:
            from ...elf import parameter_sizes
        except ImportError:  # the wheel's own kernels are in an index
            sizes = None
        else:
            sizes = parameter_sizes(read(), entry.symbol)
        if sizes is not None:
            entry = entry._replace(parameters=tuple(Parameter("", size) for size in sizes))
    loaded = LoadedKernel(entry.name, context, function)
    return Kernel(loaded, demand=request.demand, load=request.elsewhere, entry=entry, env=request.env)


def context_for(machine: Probe, driver: tuple[str, ...], device: int | None, context: Any) -> Context | None:
    """Return the context to load kernels for, None if there is no such device; raises ValueError, TypeError,
    DriverError.
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
