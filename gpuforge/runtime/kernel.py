"""A kernel that is loaded in a context: its launches, once or bound to their arguments, and memory for them."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_void_p
from typing import Any, Union

from .arguments import Layout
from .bound import BoundLaunch
from .context import Context, Function
from .dimensions import three
from .errors import DriverError
from .frame import Frame
from .memory import Memory
from .stream import stream_handle
from .upload import filled

Dim = Union[int, "tuple[int, ...]"]
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class Kernel:
    """A kernel in a context. Safe to use from several threads."""

    __slots__ = (
        "_context",
        "_current",
        "_function",
        "_handle",
        "_launch",
        "_layouts",
        "_loaded",
        "_sizes",
        "name",
    )
    backend = "cuda"

    def __init__(self, name: str, context: Context, function: Function) -> None:
        driver = context.driver
        self._loaded = function.loaded
        self.name = name
        self._context = context
        self._handle = function.handle
        self._function = c_void_p.from_param(function.handle)
        with context.current():
            self._sizes = driver.parameter_sizes(function.handle)
        self._layouts: dict[tuple[type, ...], Layout] = {}
        self._current = driver.quick("cuCtxGetCurrent", holds_gil=True)
        self._launch = driver.quick("cuLaunchKernelEx") or _without_ex(
            driver.c.cuLaunchKernel, function.handle
        )

    @property
    def device(self) -> str:
        """The device's name and its driver's release, to which a measurement belongs."""
        from .jit import driver_release

        device = self._context.driver.devices[self._context.ordinal]
        return f"{device.name}, driver {driver_release() or 'unknown'}"

    def memory(self, size: int) -> Memory:
        """Allocate `size` bytes in the kernel's context, freed by a `with` statement; raises DriverError."""
        return Memory(self._context, size)

    def upload(self, source: Any) -> Memory:
        """Return device memory with a copy of a contiguous buffer: an array of NumPy, of `array`, bytes.

        Raises TypeError, ValueError, DriverError.
        """
        return filled(self.memory(memoryview(source).nbytes), source)

    def launch(self, grid: Dim, block: Dim, *arguments: Any, shared: int = 0, stream: Any = None) -> None:
        """Queue the kernel on a stream over `grid` blocks of `block` threads, each a number or up to three.

        An argument is a number of ctypes or NumPy, a ctypes structure, or an array in device memory: a `Memory`, or
        anything with `__cuda_array_interface__` or DLPack. The kernel gets an array's address, so its elements must
        fill one block of memory, in any order of the axes. `shared` is dynamic shared memory in bytes. `stream` is a
        CUstream as a number, or a stream of CuPy, torch, cuda.core (anything with `__cuda_stream__`); None is the
        default stream.

        Raises TypeError (also for host memory: copy it with `upload`), ValueError (also for an array with gaps),
        DriverError. A fault inside the kernel shows in the next `Memory.read`.
        """
        layout = self._layouts.get(tuple(map(type, arguments))) or self._layout(arguments)
        queue = 0 if stream is None else stream_handle(stream)
        try:
            frame = layout.frames[queue].pop()
        except (KeyError, IndexError):
            frame = layout.frame(queue, self._handle)
        try:
            replay = frame.replay
            word = queue if replay is None else frame.parameters_at
            self._fill(frame, layout, grid, block, shared, queue, word, arguments)
            if (
                replay is None
                or replay.look(*replay.at)
                or replay.current.value != replay.expected
                or replay.update(replay.instance, replay.node, frame.node)
            ):
                frame.set_stream(queue)
                self.launch_plainly(frame, queue)
                return
            code = replay.send(replay.instance, replay.queue)
        finally:
            frame.pool.append(frame)
        if code:
            raise self.error("cuGraphLaunch", code)

    def bind(
        self, grid: Dim, block: Dim, *arguments: Any, shared: int = 0, stream: Any = None
    ) -> BoundLaunch:
        """Return a repeatable launch with these arguments, which are read now; call it to launch. Raises as `launch`.

        It keeps the arguments alive. It waits for the work on an array's own stream now, not at each call.
        """
        layout = self._layouts.get(tuple(map(type, arguments))) or self._layout(arguments)
        queue = stream_handle(stream)
        frame = layout.new_frame(self._handle)
        self._fill(frame, layout, grid, block, shared, queue, queue, arguments)
        return BoundLaunch(self, frame, queue, arguments)

    def error(self, call: str, code: int) -> DriverError:
        """Return the exception for a driver function's result that is not 0."""
        return self._context.driver.error(call, code)

    def launch_plainly(self, frame: Frame, queue: int) -> None:
        """Queue the kernel of a frame without a graph; make one after some launches. Raises DriverError."""
        current = c_void_p()
        if self._current(byref(current)) or current.value != self._context.handle:
            code = self._elsewhere(current.value, frame.config, frame.parameters)
        else:
            code = self._launch(frame.config, self._function, frame.parameters, None)
        if code:
            raise self.error("cuLaunchKernel", code)
        frame.left -= 1
        if not frame.left:
            frame.make_replay(self._context, queue, self._loaded)

    def _layout(self, arguments: tuple[Any, ...]) -> Layout:
        layout = Layout(arguments)
        layout.check(self._sizes, arguments)
        return self._layouts.setdefault(tuple(map(type, arguments)), layout)

    def _fill(
        self, frame: Frame, layout: Layout, grid: Dim, block: Dim, shared: int, queue: int, word: int,
        arguments: tuple[Any, ...],
    ) -> None:  # fmt: skip
        gx, gy, gz = (grid, 1, 1) if type(grid) is int else three(grid)
        bx, by, bz = (block, 1, 1) if type(block) is int else three(block)
        values = layout.values(queue, self._wait, *arguments)
        try:
            layout.pack(frame.buffer, 0, gx, gy, gz, bx, by, bz, shared, word, *values)
        except (struct.error, OverflowError) as error:
            raise ValueError(
                f"grid {grid}, block {block}, shared {shared}, stream {queue}: {error}"
            ) from None

    def _elsewhere(self, current: int | None, config: Any, parameters: Any) -> int:
        """Launch if another context is current, or none: then a primary one stays current, as with cudart."""
        if not current and self._context.primary:
            self._context.driver.call("cuCtxSetCurrent", self._context.handle)
            return int(self._launch(config, self._function, parameters, None))
        with self._context.current():
            return int(self._launch(config, self._function, parameters, None))

    def _wait(self, theirs: int, ours: int) -> None:
        """Make stream `ours` wait for the work that is queued on `theirs`."""
        driver, event = self._context.driver, c_void_p()
        with self._context.current():
            driver.call("cuEventCreate", byref(event), _NO_TIMING)
            try:
                driver.call("cuEventRecord", event, theirs)
                driver.call("cuStreamWaitEvent", ours, event, 0)
            finally:
                driver.call("cuEventDestroy_v2", event)


def _without_ex(launch: Any, handle: int) -> Any:
    """Return cuLaunchKernelEx for a driver before CUDA 11.8, implemented with cuLaunchKernel."""

    def launch_ex(config: Any, _: object, parameters: Any, extra: None) -> int:
        dims = (ctypes.c_uint * 7).from_address(ctypes.addressof(config._obj))
        stream = c_void_p.from_address(ctypes.addressof(config._obj) + 32)
        code: int = launch(handle, *dims, stream, parameters, extra)
        return code

    return launch_ex
