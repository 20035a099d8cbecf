"""Memory of an OpenCL device, and the arrays of NumPy that a launch copies to the device and back."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...dimensions import size_of
from ...hostarray import HostArray, source_of, target_of
from ...refusal import FREED
from .context import OpenClContext


class OpenClMemory:
    """Memory of an OpenCL device; see `Memory`."""

    __slots__ = ("_buffer", "_context", "events", "size")

    def __init__(self, context: OpenClContext, size: int) -> None:
        import pyopencl as cl

        self.size = size_of("the memory's size", size)
        self._context = context
        self.events: list[Any] = []  # of the last launch with it, as arrays of pyopencl have them
        try:
            self._buffer: Any = cl.Buffer(context.context, cl.mem_flags.READ_WRITE, max(self.size, 1))
        except cl.Error as error:
            raise context.failure("clCreateBuffer", error) from error

    @property
    def buffer(self) -> Any:
        """Its buffer of pyopencl; raises ValueError after `free`."""
        buffer = self._buffer
        if buffer is None:
            raise ValueError(FREED)
        return buffer

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy an array in the CPU's memory, of exactly `size` bytes in C's order.

        Raises TypeError, ValueError, DriverError.
        """
        self.copy_in(source_of(source, self.size), stream)

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Wait for the kernels queued so far, and copy into an array of `size` bytes in C's order that can be written.

        Raises TypeError, ValueError, DriverError, also for a fault of an earlier kernel.
        """
        self.copy_out(target_of(target, self.size), stream)

    def add_event(self, event: Any) -> None:
        """Let copies and launches with this memory follow an event."""
        self.events = [event]

    def copy_in(self, array: HostArray, stream: Any = None) -> None:
        """Copy the block of an array to the device; raises ValueError, DriverError."""
        buffer = self.buffer
        if self.size:
            self._copy(stream, buffer, array.bytes())

    def copy_out(self, array: HostArray, stream: Any = None) -> None:
        """Copy into the block of an array; raises ValueError, DriverError."""
        buffer = self.buffer
        if self.size:
            self._copy(stream, array.bytes(), buffer)

    def free(self) -> None:
        """Give the memory back to the device; more than once is harmless."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            buffer.release()

    def __enter__(self) -> OpenClMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def _copy(self, stream: Any, target: Any, source: Any) -> None:
        import pyopencl as cl

        queue = self._context.queue_of(stream)
        try:
            cl.enqueue_copy(queue, target, source, is_blocking=True, wait_for=self.events)
        except cl.Error as error:
            raise self._context.failure("clEnqueueCopyBuffer", error) from error


class _Copy(NamedTuple):
    number: int  # of the argument
    array: HostArray
    memory: OpenClMemory
    written: bool  # by the kernel, as far as is known

    @property
    def end(self) -> int:
        return self.array.address + self.array.size


class Copies:
    """The arrays of the host among a launch's arguments, each in device memory while the kernel runs.

    Arguments with the same bytes share one copy, as on the host. With another overlap, the copies of an array that is
    written would overwrite each other: it is refused.
    """

    def __init__(self, context: OpenClContext) -> None:
        self._context = context
        self._copies: list[_Copy] = []

    def add(self, number: int, array: HostArray, *, written: bool) -> OpenClMemory:
        """Return the device memory of an array without gaps; raises ValueError, DriverError."""
        start, end = array.address, array.address + array.size
        for at, other in enumerate(self._copies):
            if max(start, other.array.address) >= min(end, other.end):
                continue
            if (other.array.address, other.end) == (start, end):
                if written:
                    self._copies[at] = other._replace(array=array, written=True)
                self._refuse_overlap(number, self._copies[at])
                return other.memory
        new = _Copy(number, array, OpenClMemory(self._context, array.size), written)
        try:
            self._refuse_overlap(number, new)
            new.memory.copy_in(array)
        except BaseException:
            new.memory.free()
            raise
        self._copies.append(new)
        return new.memory

    def read_back(self, queue: Any) -> None:
        """Wait for the kernel, and copy the arrays that it may have written back; raises DriverError."""
        for copy in self._copies:
            if copy.written:
                copy.memory.copy_out(copy.array, queue)

    def free(self) -> None:
        """Give the device memory back."""
        for copy in self._copies:
            copy.memory.free()

    def _refuse_overlap(self, number: int, new: _Copy) -> None:
        for other in self._copies:
            overlap = max(new.array.address, other.array.address) < min(new.end, other.end)
            same = (new.array.address, new.end) == (other.array.address, other.end)
            if overlap and not same and (other.written or new.written):
                raise ValueError(
                    f"arguments {other.number} and {number} overlap in memory, and one of them can be written: "
                    "pass a copy of one, or make both read-only"
                )

    def __bool__(self) -> bool:
        return bool(self._copies)
