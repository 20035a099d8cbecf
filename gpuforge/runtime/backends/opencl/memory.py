"""Memory of an OpenCL device, and the arrays of NumPy that a launch copies to the device and back."""

from __future__ import annotations

from typing import Any, NamedTuple

from .context import OpenClContext


class OpenClMemory:
    """Memory of an OpenCL device; see `Memory`."""

    __slots__ = ("_context", "buffer", "size")

    def __init__(self, context: OpenClContext, size: int) -> None:
        import pyopencl as cl

        self.size = size
        self._context = context
        try:
            self.buffer = cl.Buffer(context.context, cl.mem_flags.READ_WRITE, max(size, 1))
        except cl.Error as error:
            raise context.failure("clCreateBuffer", error) from error

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy a contiguous buffer of exactly `size` bytes to the device; raises ValueError, DriverError."""
        self._copy(stream, self.buffer, self._checked(source))

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Wait for the kernels queued so far, and copy into a writable buffer of `size` bytes.

        Raises ValueError for another size, DriverError, also for a fault of an earlier kernel.
        """
        self._copy(stream, self._checked(target), self.buffer)

    def free(self) -> None:
        """Give the memory back to the device; more than once is harmless."""
        buffer, self.buffer = self.buffer, None
        if buffer is not None:
            buffer.release()

    def __enter__(self) -> OpenClMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def _copy(self, stream: Any, target: Any, source: Any) -> None:
        import pyopencl as cl

        if not self.size:
            return
        try:
            cl.enqueue_copy(
                self._context.queue if stream is None else stream, target, source, is_blocking=True
            )
        except cl.Error as error:
            raise self._context.failure("clEnqueueCopyBuffer", error) from error

    def _checked(self, buffer: Any) -> memoryview:
        view = memoryview(buffer)
        if view.nbytes != self.size:
            raise ValueError(f"the buffer holds {view.nbytes} bytes and the device memory {self.size}")
        return view.cast("B") if self.size else view


class _Copy(NamedTuple):
    number: int  # of the argument
    start: int
    end: int
    array: Any
    memory: OpenClMemory

    @property
    def writable(self) -> bool:
        return bool(self.array.flags.writeable)


class Copies:
    """The arrays of NumPy among a launch's arguments, each in device memory while the kernel runs.

    Arguments with the same bytes share one copy, as on the host. With another overlap, the copies of a writable array
    would overwrite each other: it is refused.
    """

    def __init__(self, context: OpenClContext) -> None:
        self._context = context
        self._copies: list[_Copy] = []

    def add(self, number: int, array: Any) -> OpenClMemory:
        """Return the device memory of an array; raises TypeError, ValueError, DriverError."""
        if not array.flags.c_contiguous:
            raise TypeError(f"argument {number}: a contiguous array is expected")
        start = array.__array_interface__["data"][0]
        end = start + array.nbytes
        touching = [copy for copy in self._copies if max(start, copy.start) < min(end, copy.end)]
        for other in touching:
            same = (other.start, other.end) == (start, end)
            if not same and (other.writable or array.flags.writeable):
                raise ValueError(
                    f"arguments {other.number} and {number} overlap in memory, and one of them can be written: "
                    "pass a copy of one, or make both read-only"
                )
        for at, other in enumerate(self._copies):
            if touching and (other.start, other.end) == (start, end):
                if array.flags.writeable:
                    self._copies[at] = other._replace(array=array)
                return other.memory
        memory = OpenClMemory(self._context, array.nbytes)
        self._copies.append(_Copy(number, start, end, array, memory))
        memory.write(array)
        return memory

    def read_back(self, queue: Any) -> None:
        """Wait for the kernel, and copy the writable arrays back; raises DriverError."""
        for copy in self._copies:
            if copy.writable:
                copy.memory.read(copy.array, stream=queue)

    def free(self) -> None:
        """Give the device memory back."""
        for copy in self._copies:
            copy.memory.free()

    def __bool__(self) -> bool:
        return bool(self._copies)
