"""A CUDA context: the modules loaded in it, the order of its streams, and memory to copy into and out of."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p
from typing import Any, NamedTuple, Union

from ...driver import Driver, DriverModule
from ...process import DriverError, shared
from ...signature import (
    DEFAULT,
    FREED,
    LEGACY,
    PER_THREAD,
    context_handle,
    size_of,
    source_of,
    stream_handle,
    target_of,
)

_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class Modules:
    """Loaded modules by their digest, with a count of their holders. Safe for threads.

    A module stays loaded until `release`, and after it as long as it has a holder. `unload` is called outside all
    locks.
    """

    def __init__(self, unload: Callable[[Any], None]) -> None:
        self._unload = unload
        self._lock = threading.RLock()  # the garbage collector may release a module inside of it
        self._slots: dict[str, _Slot] = {}

    def hold(self, digest: str, load: Callable[[], Any]) -> LoadedModule:
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
        with self._lock:
            slots, self._slots = self._slots, {}
            for slot in slots.values():
                slot.holders += 1
        for digest, slot in slots.items():
            self._let_go(digest, slot)

    def __len__(self) -> int:
        return len(self._slots)

    def _let_go(self, digest: str, slot: _Slot) -> None:
        with self._lock:
            slot.holders -= 1
            kept = self._slots.get(digest) is slot
            if kept and slot.module is None and not slot.holders:  # its load failed
                del self._slots[digest]
            unused = None if kept or slot.holders else slot.module
        if unused is not None:
            self._unload(unused)


class LoadedModule:
    """A module that stays loaded until `release`, or until this object is gone."""

    def __init__(self, module: Any, release: Callable[[], None]) -> None:
        self.module = module
        self._lock = threading.Lock()
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the process, modules it needs may be gone
            self.release()


class _Slot:
    def __init__(self) -> None:
        self.loading = threading.Lock()
        self.module: Any = None
        self.holders = 0


class Function(NamedTuple):
    """A CUfunction, and its module, which stays loaded as long as this object exists."""

    handle: int
    loaded: LoadedModule


class Context:
    """A context and the modules loaded for it, which are never used in another. All methods raise DriverError."""

    def __init__(self, driver: Driver, handle: int, ordinal: int, *, primary: bool = False) -> None:
        self.driver = driver
        self.primary = primary
        self.handle = handle
        self.ordinal = ordinal
        self.place: Place = ordinal if primary else self
        self._modules = Modules(self._unload)
        self._events: list[c_void_p] = []
        self.release = self._modules.release

    def __str__(self) -> str:
        device = f"device {self.ordinal}"
        return device if self.primary else f"context {self.handle:#x} of {device}"

    def function(self, name: str, digest: str, read: Callable[[], bytes]) -> Function:
        loaded = self._modules.hold(digest, lambda: self._load(read))
        with self.current(), self.allowed_in_captures():
            return Function(self.driver.function(loaded.module, name), loaded)

    def order(self, first: int, then: int, of: Context | None = None) -> None:
        """Make stream `then` wait for the work that is queued so far on stream `first`, of another context with
        `of`.

        Nothing is done if only one of them is being captured into a graph, whose work is queued later.
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
        try:
            return self._events.pop()
        except IndexError:
            event = c_void_p()
        with self.allowed_in_captures():
            self.driver.call("cuEventCreate", byref(event), _NO_TIMING)
        return event

    def capturing(self, stream: int) -> bool:
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

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        self.driver.call("cuCtxPushCurrent_v2", self.handle)
        try:
            yield
        finally:
            self.driver.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def _load(self, read: Callable[[], bytes]) -> DriverModule:
        with self.current(), self.allowed_in_captures():
            return self.driver.load(read())

    def _unload(self, module: DriverModule) -> None:
        if self.driver.pid != os.getpid():
            return  # a forked child: the driver belongs to the parent
        # the context may be gone, with everything in it
        with contextlib.suppress(DriverError), self.current():
            self.driver.unload(module)


Place = Union[int, Context]  # where a kernel runs: a device, with its primary context, or another context
_lock = threading.Lock()
_contexts: dict[tuple[int, int, int], Context] = {}


def primary_context(driver: Driver, ordinal: int) -> Context:
    """Return the primary context of a device, retained for the life of the process."""
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
    handle = context_handle(context, driver.current_context)
    if not handle:
        raise ValueError("no CUDA context is current in this thread")
    key = id(driver), handle, driver.context_id(handle)
    found = _contexts.get(key)
    if found is None:
        found = Context(driver, handle, 0)
        device, active = c_int(), c_int()
        with found.current():
            driver.call("cuCtxGetDevice", byref(device))
        numbers = range(len(driver.devices))
        found.ordinal = next((n for n in numbers if driver.device(n) == device.value), 0)
        driver.call("cuDevicePrimaryCtxGetState", device.value, byref(c_uint()), byref(active))
        if active.value:  # nothing is made here
            primary = primary_context(driver, found.ordinal)
            if primary.handle == handle:
                return primary
        with _lock:
            found = _contexts.setdefault(key, found)
    return found


def current_place(driver: Driver) -> Place:
    handle = driver.current_context()
    if not handle:
        return 0
    for ordinal in range(len(driver.devices)):
        known = _contexts.get((id(driver), -1, ordinal))
        if known is not None and known.handle == handle:
            return ordinal
    return given_context(driver, handle).place


def release(driver: Driver, device: int | None, context: Any) -> None:
    """Release the modules in a CUcontext, which may be destroyed then, or in a device's primary one, None: in all."""
    with _lock:
        found = [each for each in _contexts.values() if each.driver is driver and each.primary]
        if context is not None:
            handle = context_handle(context, driver.current_context)
            given = _contexts.pop((id(driver), handle, driver.context_id(handle)), None) if handle else None
            found = [given] if given else [each for each in found if each.handle == handle]
        elif device is not None:
            found = [each for each in found if each.ordinal == device]
    for each in found:
        each.release()


class Memory:
    """Device memory of `size` bytes; use it in a `with` statement, which frees it.

    Launches and copies of it follow each other in the order of their calls, whatever their streams are. Other libraries
    can use it in place, as an array of bytes: it has a `__cuda_array_interface__`.
    """

    __slots__ = ("_context", "_driver", "address", "on_default", "pending", "place", "size")
    dtype = ""  # as NumPy writes it, "<f4", of what was uploaded

    def __init__(self, context: Context, size: int) -> None:
        size = size_of("the memory's size", size)
        address = c_uint64()
        self._context = context
        self._driver = context.driver
        self.place = context.place
        with context.current(), context.allowed_in_captures():
            self._driver.call("cuMemAlloc_v2", ctypes.byref(address), max(size, 1))
        self.address = address.value
        self.size = size
        self.on_default = False  # whether a launch with it was on the default stream of its context
        # an event after the last launch on each other stream, and how often it was recorded
        self.pending: dict[tuple[Context, int], _Recorded] = {}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._context_waits()
        return {
            "shape": (self.size,), "typestr": "|u1", "data": (self._usable(), False), "version": 3, "stream": LEGACY,
        }  # fmt: skip

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy an array in the CPU's memory, of exactly `size` bytes in C's order.

        The copy waits for earlier launches with this memory and, if a `stream` is given, for the work queued on it. It
        has finished when this returns. Raises TypeError, ValueError, DriverError.
        """
        array = source_of(source, self.size)
        self._copy("cuMemcpyHtoD", self._usable(), array.address, stream)

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Copy into a writable array of `size` bytes in C's order, after earlier launches with this memory.

        If a `stream` is given, the copy waits for the work queued on it, too. Raises TypeError, ValueError, and
        DriverError, also for a fault of an earlier kernel.
        """
        array = target_of(target, self.size)
        self._copy("cuMemcpyDtoH", array.address, self._usable(), stream)

    def free(self) -> None:
        """Give the memory back to the device; more than once is harmless."""
        address, self.address = self.address, 0
        if address:
            with self._context.current(), self._context.allowed_in_captures():
                self._driver.call("cuMemFree_v2", address)
            for (context, _), recorded in self.pending.items():
                context.keep(recorded.event)

    def located(self) -> tuple[Place, int]:
        return self.place, self._usable()

    def before(self, context: Context, stream: int) -> None:
        if self.on_default:
            context.order(LEGACY, stream, self._context)
        waited = [
            each for at, each in list(self.pending.items()) if at != (context, stream) or stream == PER_THREAD
        ]
        if waited:
            with context.current():
                if not context.capturing(stream):
                    for each in waited:
                        self._driver.call("cuStreamWaitEvent", stream, each.event, 0)

    def after(self, context: Context, stream: int) -> None:
        """Note a launch on a stream. One that is captured into a graph does not count."""
        if context is self._context and stream in DEFAULT:
            self.on_default = True
            return
        with context.current():
            if context.capturing(stream):
                return
            recorded = self.pending.get((context, stream))
            if recorded is None:
                recorded = self.pending.setdefault((context, stream), _Recorded(context.event()))
            self._driver.call("cuEventRecord", recorded.event, stream)
        recorded.times += 1
        if stream == PER_THREAD:  # another thread's stream has the same name
            self._context_waits()
            del self.pending[context, stream]

    def _context_waits(self) -> None:
        if self.pending:
            with self._context.current():
                for recorded in list(self.pending.values()):
                    self._driver.call("cuStreamWaitEvent", LEGACY, recorded.event, 0)
        self.on_default = True

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def _usable(self) -> int:
        if not self.address:
            raise ValueError(FREED)
        return self.address

    def _copy(self, function: str, target: int, source: int, stream: Any) -> None:
        handle = stream_handle(stream) or LEGACY
        if not self.size:
            return
        with self._context.current():
            for at, recorded in list(self.pending.items()):
                times = recorded.times
                self._driver.call("cuEventSynchronize", recorded.event)
                if recorded.times == times:  # no other thread has launched meanwhile
                    self.pending.pop(at, None)
            if self.on_default:
                self._context.order(LEGACY, handle)
            self._driver.call(f"{function}Async_v2", target, source, self.size, handle)
            self._driver.call("cuStreamSynchronize", handle)


class _Recorded:
    __slots__ = ("event", "times")

    def __init__(self, event: c_void_p) -> None:
        self.event = event
        self.times = 0


class Variable(Memory):
    """A variable of a loaded kernel's module; its copies wait for everything that is queued in its context."""

    __slots__ = ("_kept",)

    def __init__(self, context: Context, address: int, size: int, kept: object) -> None:
        self._context, self._driver, self.place = context, context.driver, context.place
        self.address, self.size = address, size
        self.on_default, self.pending = False, {}
        self._kept = kept

    def free(self) -> None:
        """Do nothing: it belongs to the module."""

    def _copy(self, function: str, target: int, source: int, stream: Any) -> None:
        with self._context.current():
            self._driver.call("cuCtxSynchronize")  # a launch does not say which variables its kernel uses
        super()._copy(function, target, source, stream)
