"""A CUDA context, a device's primary one or the caller's: the modules loaded in it, and the order of its streams."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_int, c_uint, c_void_p
from typing import Any, NamedTuple, Union

from .driver import Driver, DriverModule
from .errors import DriverError
from .modules import LoadedModule, Modules
from .process import shared
from .stream import DEFAULT

_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


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
        self._events: list[c_void_p] = []

    @property
    def place(self) -> Place:
        """The device's number for a primary context, else the context itself."""
        return self.ordinal if self.primary else self

    def __str__(self) -> str:
        return (
            f"device {self.ordinal}" if self.primary else f"context {self.handle:#x} of device {self.ordinal}"
        )

    def function(self, name: str, digest: str, read: Callable[[], bytes]) -> Function:
        """Return kernel `name` of the module with this content digest.

        `read` returns the module's bytes and is called once; a module that failed to load is tried again next time.
        Raises DriverError.
        """
        loaded = self._modules.hold(digest, lambda: self._load(read))
        with self.current(), self.allowed_in_captures():
            return Function(self.driver.function(loaded.module, name), loaded)

    def release(self) -> None:
        """Release all modules; one with a kernel that is still in use is unloaded when the kernel is gone."""
        self._modules.release()

    def order(self, first: int, then: int, of: Context | None = None) -> None:
        """Make stream `then` wait for the work that is queued so far on stream `first`; raises DriverError.

        With `of`, `first` is a stream of that context. Nothing is done if only one of them is being captured into a
        graph, whose work is queued later.
        """
        source = of or self
        if source is self and (first == then or (first in DEFAULT and then in DEFAULT)):
            return
        with self.current():
            captured = self.capturing(then)
        with source.current():
            if source.capturing(first) != captured:
                return
            event = source.event()
            self.driver.call("cuEventRecord", event, first)
        with self.current():
            self.driver.call("cuStreamWaitEvent", then, event, 0)
        source.keep(event)

    def keep(self, event: c_void_p) -> None:
        """Use an event again for another purpose; what waits for it already is not changed by that."""
        self._events.append(event)

    def event(self) -> c_void_p:
        """Return an event that nothing else uses, of this context, which must be current; raises DriverError."""
        try:
            return self._events.pop()
        except IndexError:
            event = c_void_p()
        with self.allowed_in_captures():
            self.driver.call("cuEventCreate", byref(event), _NO_TIMING)
        return event

    def capturing(self, stream: int) -> bool:
        """Return whether work on a stream is captured into a graph now."""
        state = c_int()
        ask = self.driver.c.cuStreamIsCapturing
        # an error: the default stream cannot be used while another one is captured
        return bool(ask) and not ask(stream, byref(state)) and state.value != 0

    @contextlib.contextmanager
    def allowed_in_captures(self) -> Iterator[None]:
        """Let this thread load and allocate while a stream is captured into a graph."""
        exchange, mode = self.driver.c.cuThreadExchangeStreamCaptureMode, c_int(_RELAXED)
        if exchange:
            exchange(byref(mode))
        try:
            yield
        finally:
            if exchange:
                exchange(byref(mode))

    def _load(self, read: Callable[[], bytes]) -> DriverModule:
        with self.current(), self.allowed_in_captures():
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


Place = Union[int, Context]  # where a kernel runs: a device, with its primary context, or another context
_lock = threading.Lock()
_contexts: dict[tuple[int, int, int], Context] = {}


def primary_context(driver: Driver, ordinal: int) -> Context:
    """Return the primary context of a device, retained for the life of the process; raises DriverError."""
    key = id(driver), -1, ordinal
    found = _contexts.get(key)
    if found is None:
        meeting = shared()
        with meeting.lock:
            handle = meeting.contexts.get((driver.files, ordinal))
            if handle is None:
                retained = c_void_p()
                driver.call("cuDevicePrimaryCtxRetain", byref(retained), driver.device(ordinal))
                handle = meeting.contexts[driver.files, ordinal] = retained.value or 0
        with _lock:
            found = _contexts.setdefault(key, Context(driver, handle, ordinal, primary=True))
    return found


def given_context(driver: Driver, context: Any) -> Context:
    """Return the `Context` of a CUcontext: "current", a number, or an object with a `handle`.

    Raises ValueError if none is current, TypeError for something else, DriverError.
    """
    handle = driver.current_context() if context == "current" else _handle(context)
    if not handle:
        raise ValueError("no CUDA context is current in this thread")
    key = id(driver), handle, driver.context_id(handle)
    found = _contexts.get(key)
    if found is None:
        found = Context(driver, handle, 0)
        device = c_int()
        with found.current():
            driver.call("cuCtxGetDevice", byref(device))
        found.ordinal = driver.ordinal(device.value)
        if _is_active(driver, found.ordinal):
            primary = primary_context(driver, found.ordinal)
            if primary.handle == handle:
                return primary
        with _lock:
            found = _contexts.setdefault(key, found)
    return found


def current_place(driver: Driver) -> Place:
    """Return where a launch without arrays goes: to the thread's current context, else to device 0."""
    handle = driver.current_context()
    if not handle:
        return 0
    for ordinal in range(len(driver.devices)):
        known = _contexts.get((id(driver), -1, ordinal))
        if known is not None and known.handle == handle:
            return ordinal
    return given_context(driver, handle).place


def release(driver: Driver, device: int | None, context: Any) -> None:
    """Release the modules in a CUcontext, which may be destroyed then, or in a device's primary one, None: in all.

    Raises TypeError for anything but a context.
    """
    if context is not None:
        handle = driver.current_context() if context == "current" else _handle(context)
        with _lock:
            given = _contexts.pop((id(driver), handle, driver.context_id(handle)), None) if handle else None
        found = [given] if given else [c for c in _primaries(driver) if c.handle == handle]
    else:
        found = [c for c in _primaries(driver) if device is None or c.ordinal == device]
    for each in found:
        each.release()


def _primaries(driver: Driver) -> list[Context]:
    return [context for context in list(_contexts.values()) if context.driver is driver and context.primary]


def _is_active(driver: Driver, ordinal: int) -> bool:
    """Return whether a device's primary context exists; nothing is made here."""
    flags, active = c_uint(), c_int()
    driver.call("cuDevicePrimaryCtxGetState", driver.device(ordinal), byref(flags), byref(active))
    return active.value != 0


def _handle(context: Any) -> int:
    found = getattr(context, "handle", context)
    found = getattr(found, "value", found)  # ctypes
    try:
        return int(found or 0)
    except (TypeError, ValueError):
        raise TypeError(
            f'a context is "current", a CUcontext as a number, or an object with a handle, not {context!r}'
        ) from None
