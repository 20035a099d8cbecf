"""Device memory that the caller copies into and out of; there are no implicit copies."""

from __future__ import annotations

import ctypes
from ctypes import c_uint64, c_void_p
from typing import Any

from .context import Context, Place
from .dimensions import size_of
from .hostarray import source_of, target_of
from .refusal import FREED
from .stream import DEFAULT, LEGACY, stream_handle


class Memory:
    """Device memory of `size` bytes; use it in a `with` statement, which frees it.

    Launches and copies of it follow each other in the order of their calls, whatever their streams are. Other libraries
    can use it in place, as an array of bytes: it has a `__cuda_array_interface__`.
    """

    __slots__ = ("_context", "_driver", "_event", "_recorded", "address", "place", "size", "stream")

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
        self.stream = LEGACY  # of the last launch with it
        self._event: c_void_p | None = None  # after the last launch, unless that was on the default stream
        self._recorded = False

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.size,), "typestr": "|u1", "data": (self._usable(), False), "version": 3,
            "stream": self.stream,
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
        event, self._event = self._event, None
        if address:
            with self._context.current(), self._context.allowed_in_captures():
                self._driver.call("cuMemFree_v2", address)
                if event is not None:
                    self._driver.call("cuEventDestroy_v2", event)

    def located(self) -> tuple[Place, int]:
        """Return the place and the address; raises ValueError once it was freed."""
        return self.place, self._usable()

    def before(self, stream: int) -> None:
        """Make a stream wait for the last launch with this memory; raises DriverError."""
        if stream == self.stream or (stream in DEFAULT and self.stream in DEFAULT):
            return
        if self.stream in DEFAULT:
            self._context.order(LEGACY, stream)
        elif self._recorded and not self._context.capturing(stream):
            with self._context.current():
                self._driver.call("cuStreamWaitEvent", stream, self._event, 0)

    def after(self, stream: int) -> None:
        """Note a launch on a stream; raises DriverError. One that is captured into a graph does not count."""
        if stream in DEFAULT:
            self.stream, self._recorded = LEGACY, False
            return
        with self._context.current():
            if self._context.capturing(stream):
                return
            self._event = self._event or self._context.event()
            self._driver.call("cuEventRecord", self._event, stream)
        self.stream, self._recorded = stream, True

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
            if self._recorded:
                self._driver.call("cuEventSynchronize", self._event)
            self._driver.call(f"{function}Async_v2", target, source, self.size, handle)
            self._driver.call("cuStreamSynchronize", handle)


class Variable(Memory):
    """A `__device__` or `__constant__` variable of a loaded kernel's module: memory that is never freed by itself."""

    __slots__ = ("_kept",)

    def __init__(self, context: Context, address: int, size: int, kept: object) -> None:
        self._context, self._driver, self.place = context, context.driver, context.place
        self.address, self.size = address, size
        self.stream, self._event, self._recorded = LEGACY, None, False
        self._kept = kept

    def free(self) -> None:
        """Do nothing: it belongs to the module."""
