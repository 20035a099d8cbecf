"""Device memory that the caller copies into and out of; there are no implicit copies."""

from __future__ import annotations

import ctypes
from ctypes import c_uint64, c_void_p
from typing import Any

from ...given import DEFAULT, FREED, LEGACY, PER_THREAD, size_of, stream_handle
from ...hostarray import source_of, target_of
from .context import Context, Place


class Memory:
    """Device memory of `size` bytes; use it in a `with` statement, which frees it.

    Launches and copies of it follow each other in the order of their calls, whatever their streams are. Other libraries
    can use it in place, as an array of bytes: it has a `__cuda_array_interface__`.
    """

    __slots__ = ("_context", "_driver", "address", "on_default", "pending", "place", "size")

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
        """Copy into an array of `size` bytes in C's order that can be written, after earlier launches with this memory.

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
        """Return the place and the address; raises ValueError once it was freed."""
        return self.place, self._usable()

    def before(self, context: Context, stream: int) -> None:
        """Make a stream of a context wait for the launches with this memory; raises DriverError."""
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
        """Note a launch on a stream; raises DriverError. One that is captured into a graph does not count."""
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
        """Make the default stream wait for all launches, so that it is the only one to wait for."""
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
    """An event, and how often it was recorded."""

    __slots__ = ("event", "times")

    def __init__(self, event: c_void_p) -> None:
        self.event = event
        self.times = 0


class Variable(Memory):
    """A `__device__` or `__constant__` variable of a loaded kernel's module: memory that is never freed by itself.

    Its copies wait for everything that is queued in its context.
    """

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
