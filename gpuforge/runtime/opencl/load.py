"""OpenCL through pyopencl: its devices, kernels compiled from source through the kernel cache, and their launches."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..cache import KernelCache
from ..cache_key import CacheKey
from ..index import Module, Refused
from ..library import Attempt, patience
from ..machine import OpenClDevice
from ..reason import Reason
from ..sources import Sources
from ..tables import OPENCL
from .kernel import OpenClContext, OpenClKernel, failure

_KINDS = ("GPU", "ACCELERATOR", "CPU")  # of cl.device_type, in the order in which devices are taken
_lock = threading.Lock()
_devices: dict[int, list[Any]] = {}  # by process: what a parent opened is of no use in a fork
_contexts: dict[tuple[int, int], OpenClContext] = {}
_EXAMPLE = "pip install pocl-binary-distribution, for the CPU"
_LONGEST_LOG = 4000  # characters of the compiler's log that a reason keeps


def devices(env: Mapping[str, str], install: str) -> tuple[OpenClDevice, ...] | Reason:
    """Return the devices of OpenCL, GPUs first, or why there are none. Never raises, and never hangs.

    `install` is said where there is no pyopencl.
    """
    found = _found() or Attempt(OPENCL, partial(_look, install)).wait(patience(env))
    if isinstance(found, Reason):
        return found
    return tuple(
        OpenClDevice(device.name.strip(), device.driver_version, device.platform.version) for device in found
    )


def load(
    name: str,
    module: Module,
    sources: Sources,
    device: int,
    context: Any,
    cache: KernelCache,
    *,
    use: bool = True,
) -> OpenClKernel:
    """Return a kernel of a source, compiled for a device, or for the device of a context of pyopencl's.

    What was compiled before comes from the cache; with `use` False it is not looked up there, nor kept. Raises
    Refused with the compiler's log, DriverError for a kernel that is not there.
    """
    home = OpenClContext(context) if context is not None else _context(device)
    program = home.program(
        _key(module, sources, home.device), partial(_build, module, sources, home, cache, use)
    )
    return OpenClKernel(name, home, program)


def prepare(sources: Sources, cache: KernelCache) -> str:
    """Compile a set's sources for the first device, into the cache; return the device's name.

    `devices` has found one. Raises Refused with the compiler's log.
    """
    home = _context(0)
    for module in sources.modules.values():
        key = _key(module, sources, home.device)
        cache.obtain(key, partial(_compile, module, sources, home))
    return str(home.device.name.strip())


def _found() -> list[Any] | None:
    return _devices.get(os.getpid())


def _look(install: str) -> list[Any] | Reason:
    try:
        import pyopencl as cl
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "pyopencl":
            return Reason("not-installed", {"what": "pyopencl", "install": install})
        return Reason("not-the-library", {"library": "pyopencl", "what": "OpenCL", "problem": str(error)})
    try:
        every = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error:
        every = []  # no platform, or one without devices
    if not every:
        return Reason("no-opencl-devices", {"example": _EXAMPLE})
    masks = [getattr(cl.device_type, kind) for kind in _KINDS]
    every.sort(key=lambda device: next((n for n, mask in enumerate(masks) if device.type & mask), len(masks)))
    _devices[os.getpid()] = every
    return every


def _context(device: int) -> OpenClContext:
    """Return the context of a device, made once in a process."""
    import pyopencl as cl

    with _lock:
        key = (os.getpid(), device)
        if key not in _contexts:
            _contexts[key] = OpenClContext(cl.Context([(_found() or [])[device]]))
        return _contexts[key]


def _key(module: Module, sources: Sources, device: Any) -> CacheKey:
    """Return what a program is kept under; raises Refused for a damaged source."""
    return CacheKey.of(
        module.read(),
        headers=sources.included(),
        options=sources.filled(),
        toolchain=f"opencl {device.platform.name} {device.platform.version}",
        arch=device.name.strip() or "device",
        driver=device.driver_version,
        label=module.source,
    )


def _build(
    module: Module, sources: Sources, home: OpenClContext, cache: KernelCache, use: bool, key: CacheKey
) -> Any:
    import pyopencl as cl

    for attempt in range(2):  # what the driver refuses to load is dropped, and compiled once more
        binary = cache.obtain(key, partial(_compile, module, sources, home), cache=use)
        try:
            return cl.Program(home.context, [home.device], [binary]).build(cache_dir=False)
        except cl.Error as error:
            if attempt:
                raise failure("clCreateProgramWithBinary", error) from error
            cache.discard(key)
    raise AssertionError  # the loop has returned or raised


def _compile(module: Module, sources: Sources, home: OpenClContext) -> bytes:
    """Compile a source for a context's device; raises Refused with the compiler's log."""
    import pyopencl as cl

    options = [*sources.filled(), *sources.with_folders()]
    program = cl.Program(home.context, module.read().decode("utf-8", "surrogateescape"))
    try:
        built = program.build(options, devices=[home.device], cache_dir=False)
    except cl.Error as error:
        facts = {"file": module.source, "compiler": home.device.name.strip(), "problem": _log(error)}
        raise Refused(Reason("compile-failed", facts)) from error
    binaries: list[bytes] = built.get_info(cl.program_info.BINARIES)
    return binaries[0]


def _log(error: Exception) -> str:
    """Return what the compiler printed, without the lines that pyopencl puts around it."""
    lines = str(error).strip().splitlines()
    start = next((n + 1 for n, line in enumerate(lines) if line.startswith("Build on ")), 0)
    end = next((n for n, line in enumerate(lines) if line.startswith("(options: ")), len(lines))
    return "\n".join(lines[start:end]).strip()[:_LONGEST_LOG]
