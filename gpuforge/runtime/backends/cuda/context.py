"""A CUDA context, a device's primary one or the caller's: the modules loaded in it, and the order of its streams."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_int, c_uint, c_void_p
from typing import Any, Generic, NamedTuple, TypeVar, Union

from ...driver import Driver, DriverModule
from ...given import DEFAULT, context_handle
from ...process import DriverError, shared

Module = TypeVar("Module")


class Modules(Generic[Module]):
    """Loaded modules by their digest, with a count of their holders. Safe for threads.

    A module stays loaded until `release`, and after it as long as it has a holder. `unload` is called outside all
    locks. Modules that were never loaded are never unloaded, and a failed load is not remembered.
    """

    def __init__(self, unload: Callable[[Module], None]) -> None:
        self._unload = unload
        self._lock = threading.RLock()  # the garbage collector may release a module inside of it
        self._slots: dict[str, _Slot[Module]] = {}

    def hold(self, digest: str, load: Callable[[], Module]) -> LoadedModule[Module]:
        """Return the module of `digest`, held until it is released; `load` loads it if necessary.

        Threads that request it at the same time load once. Raises the errors of `load`.
        """
        with self._lock:
            slot = self._slots.setdefault(digest, _Slot())
            slot.holders += 1
        try:
            with slot.loading:
                if slot.module is None:
                    slot.module = load()
                return LoadedModule(slot.module, lambda: self._let_go(digest, slot))
        except BaseException:
            self._let_go(digest, slot)
            raise

    def release(self) -> None:
        """Release all modules: those without a holder are unloaded now, the others by their last holder."""
        with self._lock:
            slots = dict(self._slots)
            for slot in slots.values():
                slot.holders += 1
            self._slots = {}
        for digest, slot in slots.items():
            self._let_go(digest, slot)

    def __len__(self) -> int:
        return len(self._slots)

    def _let_go(self, digest: str, slot: _Slot[Module]) -> None:
        with self._lock:
            slot.holders -= 1
            kept = self._slots.get(digest) is slot
            if kept and slot.module is None and not slot.holders:  # its load failed
                del self._slots[digest]
            unused = None if kept or slot.holders else slot.module
        if unused is not None:
            self._unload(unused)


class LoadedModule(Generic[Module]):
    """A module that stays loaded until `release`, or until this object is gone; releasing twice is harmless."""

    def __init__(self, module: Module, release: Callable[[], None]) -> None:
        self.module = module
        self._lock = threading.Lock()
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """Release the module, which must not be used any more."""
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the process, modules it needs may be gone
            self.release()


class _Slot(Generic[Module]):
    """One place for a module, and the number of its holders."""

    def __init__(self) -> None:
        self.loading = threading.Lock()
        self.module: Module | None = None
        self.holders = 0


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
    handle = driver.current_context() if context == "current" else context_handle(context)
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
        handle = driver.current_context() if context == "current" else context_handle(context)
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
