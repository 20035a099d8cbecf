"""A kernel that is loaded in a context: its launches, once or bound to their arguments, and memory for them."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_void_p
from typing import Any, Union

from .arguments import Frame, Layout
from .context import Context, Function
from .memory import Memory
from .stream import stream_handle

Dim = Union[int, "tuple[int, ...]"]
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class Kernel:
    """A kernel in a context. Safe to use from several threads."""

    __slots__ = (
        "_context",
        "_current",
        "_function",
        "_handle",
        "_held",
        "_launch",
        "_layouts",
        "_sizes",
        "name",
    )

    def __init__(self, name: str, context: Context, function: Function) -> None:
        driver = context.driver
        handle = function.handle
        self._held = function.held
        self.name = name
        self._context = context
        self._handle = context.handle
        self._function = c_void_p.from_param(handle)
        with context.current():
            self._sizes = driver.parameter_sizes(handle)
        self._layouts: dict[tuple[type, ...], Layout] = {}
        self._current = driver.quick("cuCtxGetCurrent", holds_gil=True)
        self._launch = driver.quick("cuLaunchKernelEx") or _without_ex(driver.c.cuLaunchKernel, handle)

    def memory(self, size: int) -> Memory:
        """Allocate `size` bytes in the kernel's context, freed by a `with` statement; raises DriverError."""
        return Memory(self._context, size)

    def upload(self, source: Any) -> Memory:
        """Return device memory with a copy of a contiguous buffer: an array of NumPy, of `array`, bytes.

        Raises TypeError, ValueError, DriverError.
        """
        memory = Memory(self._context, memoryview(source).nbytes)
        try:
            memory.write(source)
        except BaseException:
            memory.free()
            raise
        return memory

    def launch(self, grid: Dim, block: Dim, *arguments: Any, shared: int = 0, stream: Any = None) -> None:
        """Queue the kernel on a stream over `grid` blocks of `block` threads, each a number or up to three.

        An argument is a number of ctypes or NumPy, a ctypes structure, or an array in device memory: a `Memory`, or
        anything with `__cuda_array_interface__` or DLPack; of an array the address is passed, its strides are not
        looked at. `shared` is dynamic shared memory in bytes. `stream` is a CUstream as a number, or a stream of
        CuPy, torch, cuda.core: whatever has `__cuda_stream__`; None is the default stream.

        Raises TypeError (with host memory too: copy it with `upload`), ValueError, DriverError. A fault inside the
        kernel shows in the next `Memory.read`.
        """
        signature = tuple([type(value) for value in arguments])
        layout = self._layouts.get(signature) or self._layout(signature, arguments)
        queue = 0 if stream is None else stream_handle(stream)
        frame = layout.frame()
        try:
            self._fill(frame, layout, grid, block, shared, queue, arguments)
            if self._current(frame.held_at) or frame.held.value != self._handle:
                code = self._elsewhere(frame.held.value, frame.config, frame.parameters)
            else:
                code = self._launch(frame.config, self._function, frame.parameters, None)
        finally:
            layout.frames.append(frame)
        if code:
            raise self._context.driver.error("cuLaunchKernel", code)

    def bind(
        self, grid: Dim, block: Dim, *arguments: Any, shared: int = 0, stream: Any = None
    ) -> BoundLaunch:
        """Return a launch with these arguments, read now, that is repeated by calling it; raises as `launch` does.

        It keeps the arguments alive. What an array's own stream has queued is waited for now, not at each call.
        """
        signature = tuple([type(value) for value in arguments])
        layout = self._layouts.get(signature) or self._layout(signature, arguments)
        frame = layout.frame()
        self._fill(frame, layout, grid, block, shared, stream_handle(stream), arguments)
        return BoundLaunch(self, frame, arguments)

    def _layout(self, signature: tuple[type, ...], arguments: tuple[Any, ...]) -> Layout:
        layout = Layout(arguments)
        layout.check(self._sizes, arguments)
        return self._layouts.setdefault(signature, layout)

    def _fill(
        self, frame: Frame, layout: Layout, grid: Dim, block: Dim, shared: int, queue: int, arguments: Any
    ) -> None:
        gx, gy, gz = (grid, 1, 1) if type(grid) is int else _three(grid)
        bx, by, bz = (block, 1, 1) if type(block) is int else _three(block)
        values = layout.values(arguments, queue, self._wait)
        try:
            layout.pack(frame.buffer, 0, gx, gy, gz, bx, by, bz, shared, queue, *values)
        except (struct.error, OverflowError) as error:
            raise ValueError(
                f"grid {grid}, block {block}, shared {shared}, stream {queue}: {error}"
            ) from None

    def _elsewhere(self, held: int | None, config: Any, parameters: Any) -> int:
        """Launch where another context is current, or none: then a primary one stays current, as with cudart."""
        if not held and self._context.primary:
            self._context.driver.call("cuCtxSetCurrent", self._handle)
            return int(self._launch(config, self._function, parameters, None))
        with self._context.current():
            return int(self._launch(config, self._function, parameters, None))

    def _wait(self, theirs: int, ours: int) -> None:
        """Have stream `ours` wait for what `theirs` has queued so far."""
        driver, event = self._context.driver, c_void_p()
        with self._context.current():
            driver.call("cuEventCreate", byref(event), _NO_TIMING)
            try:
                driver.call("cuEventRecord", event, theirs)
                driver.call("cuStreamWaitEvent", ours, event, 0)
            finally:
                driver.call("cuEventDestroy_v2", event)


class BoundLaunch:
    """A launch whose grid, block, stream and arguments are fixed; calling it queues the kernel once more."""

    __slots__ = (
        "_arguments",
        "_config",
        "_context",
        "_current",
        "_function",
        "_handle",
        "_kernel",
        "_launch",
        "_parameters",
    )

    def __init__(self, kernel: Kernel, frame: Frame, arguments: tuple[Any, ...]) -> None:
        self._arguments = arguments
        self._kernel = kernel
        self._config = frame.config
        self._parameters = frame.parameters
        self._context = kernel._context
        self._current = kernel._current
        self._function = kernel._function
        self._handle = kernel._handle
        self._launch = kernel._launch

    def __call__(self) -> None:
        """Queue the kernel; raises DriverError."""
        held = c_void_p()
        if self._current(byref(held)) or held.value != self._handle:
            code = self._kernel._elsewhere(held.value, self._config, self._parameters)
        else:
            code = self._launch(self._config, self._function, self._parameters, None)
        if code:
            raise self._context.driver.error("cuLaunchKernel", code)


def _without_ex(launch: Any, handle: int) -> Any:
    """Return cuLaunchKernelEx for a driver before CUDA 11.8, by way of cuLaunchKernel."""

    def launch_ex(config: Any, _: object, parameters: Any, extra: None) -> int:
        dims = (ctypes.c_uint * 7).from_address(ctypes.addressof(config._obj))
        stream = c_void_p.from_address(ctypes.addressof(config._obj) + 32)
        code: int = launch(handle, *dims, stream, parameters, extra)
        return code

    return launch_ex


def _three(dim: Any) -> tuple[int, int, int]:
    """Return a grid or block as three numbers; raises TypeError for anything but one to three whole numbers."""
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    try:
        x, y, z = [number.__index__() for number in given] + [1] * (3 - len(given))
    except (AttributeError, ValueError):
        raise TypeError(f"a grid or block is one to three whole numbers, not {dim!r}") from None
    return x, y, z
