"""Repeats launches as CUDA graphs of one kernel, which take the driver half the time of a launch.

https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html. A graph runs only once at a time, so each is used
on one stream. It cannot be launched into a capture, ignores its stream's priority and the SMs of a green context, and
profilers show it as a whole. In all these cases there is no graph, and launches are plain.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Sequence
from ctypes import byref, c_char, c_int, c_uint64, c_void_p
from typing import Any

from ...given import DEFAULT, PER_THREAD
from ...process import DriverError, shared
from .context import Context

OFF = "GPUFORGE_LAUNCH_GRAPHS"  # "0": every launch is a plain one
_PROFILER = "CUDA_INJECTION64_PATH"  # the driver loads a profiler from here
BEFORE = 16  # launches before a graph pays off: it takes 24 us to make and some 100 kB on the device
_MOST, _MOST_STREAMS = 256, 16  # graphs in a process, and streams for which launches of one kind have some
_FUNCTIONS = (
    "cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy", "cuStreamIsCapturing", "cuStreamGetPriority",
    "cuStreamGetCtx",
)  # fmt: skip
# CUDA_KERNEL_NODE_PARAMS_v2: function, grid, block, dynamic shared memory, pointers to the arguments; three are NULL
NODE = "@P7IP24x"


def aligned(size: int) -> Any:
    """Return `size` bytes of memory, aligned to 16 bytes as a CUDA type is at most."""
    raw = (c_uint64 * (size // 8 + 3))()
    return (c_char * size).from_buffer(raw, -ctypes.addressof(raw) % 16)


class Replay:
    """A graph with one kernel, for launches on one stream. Not for two threads at once.

    A launch is packed into `buffer`; `update` changes the graph to it, and `sent` is the launch that it has now. It may
    be sent while `ask(*at)` returns 0 and leaves `expected` in `current`: for the default stream, which each context
    has, this means that the kernel's context is current; for any other, that no capture is under way.
    """

    __slots__ = ("_context", "_graph", "_kept", "ask", "at", "buffer", "current", "expected", "instance", "node",
                 "node_at", "parameters", "queue", "send", "sent", "update")  # fmt: skip

    def __init__(self, context: Context, queue: int, size: int, offsets: Sequence[int], kept: object) -> None:
        """Prepare the memory of a node with arguments at `offsets`; `kept`, the kernel's module, outlives it."""
        driver = context.driver
        self.buffer = aligned(size)
        base = ctypes.addressof(self.buffer)
        pointers = (c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets))
        self.parameters = ctypes.addressof(pointers)
        self.node_at = byref(self.buffer)
        self.queue = c_void_p.from_param(queue)
        self.current = c_void_p()
        is_default = queue in DEFAULT
        self.ask = driver.quick("cuCtxGetCurrent" if is_default else "cuStreamIsCapturing", holds_gil=True)
        self.at: tuple[Any, ...] = (*(() if is_default else (self.queue,)), byref(self.current))
        self.expected = context.handle if is_default else None
        self.update = driver.quick("cuGraphExecKernelNodeSetParams_v2", holds_gil=True)
        self.send = driver.quick("cuGraphLaunch")
        self.sent: object = None
        self._context = context
        self._kept = kept, pointers
        self._graph, self.instance = c_void_p(), c_void_p()

    def make(self) -> None:
        """Make the graph of the launch in `buffer`; raises DriverError."""
        driver, node = self._context.driver, c_void_p()
        shared().graphs.add(id(self))
        with self._context.current(), self._context.allowed_in_captures():
            driver.call("cuGraphCreate", byref(self._graph), 0)
            driver.call("cuGraphAddKernelNode_v2", byref(node), self._graph, None, 0, self.node_at)
            driver.call("cuGraphInstantiateWithFlags", byref(self.instance), self._graph, 0)
        self.node = c_void_p.from_param(node.value)

    def __del__(self) -> None:
        driver = self._context.driver
        shared().graphs.discard(id(self))
        if driver.pid != os.getpid():
            return  # a forked child: the driver belongs to the parent
        with contextlib.suppress(DriverError), self._context.current(), self._context.allowed_in_captures():
            if self.instance:
                driver.call("cuGraphExecDestroy", self.instance)
            if self._graph:
                driver.call("cuGraphDestroy", self._graph)


class Replays:
    """The graphs that are not in use, by stream, for launches in a context whose arguments have the same types."""

    def __init__(self, context: Context, size: int, offsets: Sequence[int], kept: object) -> None:
        self._context = context
        self._about = size, offsets, kept
        self._launches: dict[int, int] = {}
        self.idle: dict[int, list[Replay]] = {}

    def launched(self, queue: int, pack: Callable[[Replay], None]) -> None:
        """Note a plain launch on a stream; after some of them make a graph of it, which `pack` writes."""
        count = self._launches.get(queue, 0) + 1
        if count > 1 or len(self._launches) < _MOST_STREAMS:
            self._launches[queue] = count
        if count % BEFORE == 0:
            replay = self.made(queue, pack)
            if replay is not None:
                self.idle.setdefault(queue, []).append(replay)

    def made(self, queue: int, pack: Callable[[Replay], None]) -> Replay | None:
        """Return a graph of a launch, which `pack` writes, None if launches on this stream must be plain."""
        off = len(shared().graphs) >= _MOST or os.environ.get(OFF) == "0" or _PROFILER in os.environ
        try:
            with self._context.current():
                if off or not self._can_replay(queue):
                    return None
            replay = Replay(self._context, queue, *self._about)
            pack(replay)
            replay.make()
        except DriverError:
            return None  # the plain launch finds the same error, and reports it
        return replay

    def _can_replay(self, queue: int) -> bool:
        """Return whether the driver has all functions (CUDA 12.0), and a stream is an ordinary one of the context."""
        driver, priority, owner = self._context.driver, c_int(), c_void_p()
        if any(getattr(driver.c, name) is None for name in _FUNCTIONS):
            return False
        if queue in DEFAULT:
            return True
        if queue == PER_THREAD or self._context.capturing(queue):
            return False
        driver.call("cuStreamGetPriority", queue, byref(priority))
        driver.call("cuStreamGetCtx", queue, byref(owner))
        return not priority.value and owner.value == self._context.handle
