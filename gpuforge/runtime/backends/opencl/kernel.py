"""A kernel of OpenCL in a context of pyopencl, with the interface of CUDA's kernels."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from ...arguments import is_array, is_scalar, reader
from ...dimensions import three
from ...upload import filled
from .context import OpenClContext
from .memory import Copies, OpenClMemory


class OpenClKernel:
    """A kernel in a context; `source` is the file that it was compiled from. Safe to use from several threads."""

    backend = "opencl"

    def __init__(self, name: str, source: str, context: OpenClContext, program: Any) -> None:
        import pyopencl as cl

        self.name = name
        self.source = source
        self._context = context
        self._lock = threading.Lock()  # arguments are set one by one
        try:
            self._kernel = cl.Kernel(program, name)
        except cl.Error as error:
            raise context.failure("clCreateKernel", error, name, source) from error

    @property
    def device(self) -> str:
        """The device's name and its driver's version, to which a measurement belongs."""
        return f"{self._context.name}, driver {self._context.device.driver_version}"

    def memory(self, size: int) -> OpenClMemory:
        """Allocate `size` bytes on the kernel's device, freed by a `with` statement; raises DriverError."""
        return OpenClMemory(self._context, size)

    def upload(self, source: Any) -> OpenClMemory:
        """Return device memory with a copy of a contiguous buffer; raises TypeError, ValueError, DriverError."""
        return filled(self.memory(memoryview(source).nbytes), source)

    def launch(self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None) -> None:
        """Queue the kernel over `grid` work-groups of `block` work-items, each a number or up to three.

        Arguments are as for `Kernel.launch`, with OpenCL's memory: an `OpenClMemory`, an array or buffer of pyopencl,
        its LocalMemory. An array of NumPy is copied to the device and, if it is writable, back when the kernel has
        finished. `stream` is a queue of pyopencl. Raises TypeError, ValueError (also for overlapping writable arrays),
        DriverError.
        """
        import pyopencl as cl

        if shared:
            raise ValueError(
                "a kernel of OpenCL takes its local memory as an argument: pyopencl.LocalMemory(size)"
            )
        queue = self._context.queue if stream is None else stream
        copies = Copies(self._context)
        try:
            values = [self._value(number, value, copies) for number, value in enumerate(arguments)]
            self._enqueue(queue, three(grid), three(block), values, arguments)
            copies.read_back(queue)
            if copies:
                queue.finish()
        except cl.Error as error:
            raise self._context.failure("clEnqueueNDRangeKernel", error, self.name, self.source) from error
        finally:
            copies.free()

    def bind(
        self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None
    ) -> Callable[[], None]:
        """Return a launch with these arguments that is repeated by calling it."""
        return lambda: self.launch(grid, block, *arguments, shared=shared, stream=stream)

    def _enqueue(self, queue: Any, grid: Any, block: Any, values: list[Any], given: tuple[Any, ...]) -> None:
        import pyopencl as cl

        parameters = self._kernel.num_args
        if len(values) != parameters:
            raise TypeError(f"the kernel has {parameters} parameters, and {len(values)} arguments are given")
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
            self._context.launched = (self.name, self.source)
            cl.enqueue_nd_range_kernel(queue, self._kernel, size, block)

    def _value(self, number: int, value: Any, copies: Copies) -> Any:
        """Return an argument in pyopencl's form; an array of the host is copied to the device."""
        if isinstance(value, OpenClMemory):
            return value.buffer
        if type(value).__module__.partition(".")[0] == "pyopencl":
            return value.data if hasattr(value, "base_data") else value
        if isinstance(value, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union)):
            return bytes(value)
        if is_array(value):
            return copies.add(number, value).buffer
        reader(number, value)  # its error explains why a number has no type
        if is_scalar(value):
            return value
        raise TypeError(f"argument {number}: {type(value).__name__} cannot be passed to a kernel of OpenCL")
