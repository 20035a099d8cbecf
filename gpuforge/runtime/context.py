"""A CUDA context, a device's primary one or the caller's, and the modules that are loaded in it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from ctypes import c_int, c_void_p
from typing import Any, NamedTuple

from .driver import Driver, DriverModule
from .errors import DriverError
from .modules import LoadedModule, Modules


class Function(NamedTuple):
    """A loaded kernel: a CUfunction, and its module, which stays loaded as long as this object exists."""

    handle: int
    loaded: LoadedModule[DriverModule]


class Context:
    """A context and the modules loaded for it. Modules of one context are never used in another.

    Each use makes the context current in the calling thread for its duration, and restores the previous one.
    """

    def __init__(self, driver: Driver, handle: int, ordinal: int, *, primary: bool = False) -> None:
        self.driver = driver
        self.primary = primary
        self.handle = handle
        self.ordinal = ordinal
        self._modules: Modules[DriverModule] = Modules(self._unload)

    def function(self, name: str, digest: str, read: Callable[[], bytes]) -> Function:
        """Return kernel `name` of the module with this content digest.

        `read` returns the module's bytes and is called once; a module that failed to load is tried again next time.
        Raises DriverError.
        """
        loaded = self._modules.hold(digest, lambda: self._load(read))
        with self.current():
            return Function(self.driver.function(loaded.module, name), loaded)

    def release(self) -> None:
        """Release all modules; one with a kernel that is still in use is unloaded when the kernel is gone."""
        self._modules.release()

    def _load(self, read: Callable[[], bytes]) -> DriverModule:
        with self.current():
            return self.driver.load(read())

    def _unload(self, module: DriverModule) -> None:
        if self.driver.pid != os.getpid():
            return  # a forked child: the driver belongs to the parent
        # the context may be gone, with everything in it
        with contextlib.suppress(DriverError), self.current():
            self.driver.unload(module)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make this context current in the calling thread, then restore the one before."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Push the context; raises DriverError."""
        self.driver.call("cuCtxPushCurrent_v2", self.handle)

    def leave(self) -> None:
        """Pop it again."""
        self.driver.call("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))


_lock = threading.Lock()
_contexts: dict[tuple[int, int, int], Context] = {}


def primary_context(driver: Driver, ordinal: int) -> Context:
    """Return the primary context of a device, retained for the life of the process; raises DriverError."""
    with _lock:
        key = id(driver), -1, ordinal
        if key not in _contexts:
            handle = c_void_p()
            driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), driver.device(ordinal))
            _contexts[key] = Context(driver, handle.value or 0, ordinal, primary=True)
        return _contexts[key]


def given_context(driver: Driver, context: Any) -> Context:
    """Return the `Context` of a CUcontext: "current", a number, or an object with a `handle`.

    Raises ValueError if none is current, TypeError for something else, DriverError.
    """
    handle = driver.current_context() if context == "current" else _handle(context)
    if not handle:
        raise ValueError("no CUDA context is current in this thread")
    key = id(driver), handle, driver.context_id(handle)
    with _lock:
        if key not in _contexts:
            found = Context(driver, handle, 0)
            device = c_int()
            with found.current():
                driver.call("cuCtxGetDevice", ctypes.byref(device))
            found.ordinal = device.value
            _contexts[key] = found
        return _contexts[key]


def release(driver: Driver, ordinal: int, context: Any) -> None:
    """Release the modules in a device's primary context, or in a CUcontext, which may be destroyed then.

    Raises TypeError for anything but a context.
    """
    if context is None:
        found = _contexts.get((id(driver), -1, ordinal))
    else:
        handle = driver.current_context() if context == "current" else _handle(context)
        with _lock:
            found = _contexts.pop((id(driver), handle, driver.context_id(handle)), None) if handle else None
    if found is not None:
        found.release()


def _handle(context: Any) -> int:
    found = getattr(context, "handle", context)
    found = getattr(found, "value", found)  # ctypes
    try:
        return int(found or 0)
    except (TypeError, ValueError):
        raise TypeError(
            f'a context is "current", a CUcontext as a number, or an object with a handle, not {context!r}'
        ) from None
