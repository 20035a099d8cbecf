"""A kernel of OpenCL in a context of pyopencl's: launched as kernels of CUDA are."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from ..arguments import reader
from ..cache_key import CacheKey
from ..dimensions import three
from ..errors import DriverError


class OpenClContext:
    """A context for one device, its queue, and the programs that were built for it."""

    def __init__(self, context: Any) -> None:
        import pyopencl as cl

        self.context = context
        self.device = context.devices[0]
        self.queue = cl.CommandQueue(context, self.device)
        self._lock = threading.Lock()
        self._programs: dict[str, Any] = {}

    def program(self, key: CacheKey, build: Callable[[CacheKey], Any]) -> Any:
        """Return the program of a key, built once for this context; what `build` raises is not remembered."""
        with self._lock:
            if key.digest not in self._programs:
                self._programs[key.digest] = build(key)
            return self._programs[key.digest]


class OpenClMemory:
    """Memory of an OpenCL device; see `Memory`."""

    __slots__ = ("_queue", "buffer", "size")

    def __init__(self, home: OpenClContext, size: int) -> None:
        import pyopencl as cl

        self.size = size
        self._queue = home.queue
        try:
            self.buffer = cl.Buffer(home.context, cl.mem_flags.READ_WRITE, max(size, 1))
        except cl.Error as error:
            raise failure("clCreateBuffer", error) from error

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy a contiguous buffer of exactly `size` bytes to the device; raises ValueError, DriverError."""
        self._copy(stream, self.buffer, self._checked(source))

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Wait for the kernels queued so far, and copy into a writable buffer of `size` bytes.

        Raises ValueError for another size, DriverError.
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
            cl.enqueue_copy(self._queue if stream is None else stream, target, source, is_blocking=True)
        except cl.Error as error:
            raise failure("clEnqueueCopyBuffer", error) from error

    def _checked(self, buffer: Any) -> memoryview:
        view = memoryview(buffer)
        if view.nbytes != self.size:
            raise ValueError(f"the buffer holds {view.nbytes} bytes and the device memory {self.size}")
        return view.cast("B") if self.size else view


class OpenClKernel:
    """A kernel in a context. Safe to use from several threads."""

    backend = "opencl"

    def __init__(self, name: str, home: OpenClContext, program: Any) -> None:
        import pyopencl as cl

        self.name = name
        self._home = home
        self._lock = threading.Lock()  # arguments are set one by one
        try:
            self._kernel = cl.Kernel(program, name)
        except cl.Error as error:
            raise failure("clCreateKernel", error) from error

    def memory(self, size: int) -> OpenClMemory:
        """Allocate `size` bytes on the kernel's device, freed by a `with` statement; raises DriverError."""
        return OpenClMemory(self._home, size)

    def upload(self, source: Any) -> OpenClMemory:
        """Return device memory with a copy of a contiguous buffer; raises TypeError, ValueError, DriverError."""
        memory = self.memory(memoryview(source).nbytes)
        memory.write(source)
        return memory

    def launch(self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None) -> None:
        """Queue the kernel over `grid` work-groups of `block` work-items, each a number or up to three.

        An argument is what `Kernel.launch` takes, with OpenCL's memory: an `OpenClMemory`, an array or buffer of
        pyopencl's, its LocalMemory. An array of NumPy is copied to the device and, if it can be written, back when the
        kernel has ended. `stream` is a queue of pyopencl's. Raises TypeError, ValueError, DriverError.
        """
        import pyopencl as cl

        if shared:
            raise ValueError(
                "a kernel of OpenCL takes its local memory as an argument: pyopencl.LocalMemory(size)"
            )
        queue = self._home.queue if stream is None else stream
        copied: list[tuple[OpenClMemory, Any]] = []
        try:
            values = [self._value(number, value, copied) for number, value in enumerate(arguments)]
            self._enqueue(queue, three(grid), three(block), values, arguments)
            for memory, array in copied:
                if array.flags.writeable:
                    memory.read(array, stream=queue)
            if copied:
                queue.finish()
        except cl.Error as error:
            raise failure("clEnqueueNDRangeKernel", error) from error
        finally:
            for memory, _ in copied:
                memory.free()

    def bind(
        self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None
    ) -> Callable[[], None]:
        """Return a launch with these arguments that is repeated by calling it."""
        return lambda: self.launch(grid, block, *arguments, shared=shared, stream=stream)

    def _enqueue(self, queue: Any, grid: Any, block: Any, values: list[Any], given: tuple[Any, ...]) -> None:
        import pyopencl as cl

        wanted = self._kernel.num_args
        if len(values) != wanted:
            raise TypeError(f"the kernel has {wanted} parameters, and {len(values)} arguments are given")
        size = tuple(groups * items for groups, items in zip(grid, block))
        with self._lock:
            for number, value in enumerate(values):
                try:
                    self._kernel.set_arg(number, value)
                except cl.Error as error:
                    kind = type(given[number]).__name__
                    raise TypeError(
                        f"argument {number}: {kind} does not fit the kernel's parameter"
                    ) from error
            cl.enqueue_nd_range_kernel(queue, self._kernel, size, block)

    def _value(self, number: int, value: Any, copied: list[tuple[OpenClMemory, Any]]) -> Any:
        """Return an argument as pyopencl passes it; an array of the host is copied to the device."""
        if isinstance(value, OpenClMemory):
            return value.buffer
        if type(value).__module__.partition(".")[0] == "pyopencl":
            return value.data if hasattr(value, "base_data") else value
        if isinstance(value, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union)):
            return bytes(value)
        dtype = getattr(value, "dtype", None)
        if dtype is not None and type(value).__module__ == "numpy":
            if not hasattr(value, "__setitem__"):
                return value
            if not value.flags.c_contiguous:
                raise TypeError(f"argument {number}: a contiguous array is expected")
            copied.append((self.upload(value), value))
            return copied[-1][0].buffer
        reader(number, value)  # says why a number has no type
        raise TypeError(f"argument {number}: {type(value).__name__} cannot be passed to a kernel of OpenCL")


def failure(call: str, error: Any) -> DriverError:
    """Return an error of pyopencl's as one of the driver's."""
    import pyopencl as cl

    name = cl.status_code.to_string(error.code)
    return DriverError(error.routine or call, error.code, name, str(error.what))
