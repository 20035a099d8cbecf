"""Repeats a launch as a CUDA graph of its one kernel, which takes the driver less than half the time.

https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html. A graph runs only once at a time, so each is used
on one stream. It cannot be launched into a capture, ignores its stream's priority and the SMs of a green context, and
profilers show it as a whole. In all these cases there is no graph, and launches are plain.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from ctypes import byref, c_int, c_void_p
from typing import Any

from .context import Context
from .driver import Driver
from .errors import DriverError
from .stream import LEGACY

OFF = "GPUFORGE_LAUNCH_GRAPHS"  # "0": every launch is a plain one
_PROFILER = "CUDA_INJECTION64_PATH"  # the driver loads a profiler from here
_DEFAULT = (0, LEGACY)
_PER_THREAD = 2  # CU_STREAM_PER_THREAD
_MOST = 256  # graphs in a process: each takes some 100 kB on the device
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_FUNCTIONS = (
    "cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy", "cuStreamIsCapturing", "cuStreamGetPriority",
    "cuStreamGetCtx", "cuThreadExchangeStreamCaptureMode",
)  # fmt: skip

_alive: set[int] = set()


def can_replay(driver: Driver) -> bool:
    """Return whether the driver has all functions (CUDA 12.0), without a profiler, and graphs are not switched off."""
    off = len(_alive) >= _MOST or os.environ.get(OFF) == "0" or _PROFILER in os.environ
    return not off and all(getattr(driver.c, name) is not None for name in _FUNCTIONS)


class Replay:
    """An instantiated graph with one kernel, for one stream. Not for two threads at once.

    It may be launched while `look(*at)` returns 0 and leaves `expected` in `current`. For the default stream, which
    each context has, this means that the kernel's context is current; for any other, that no capture is under way.
    """

    __slots__ = ("_context", "_graph", "_instance", "_kept", "at", "current", "expected", "instance", "look", "node",
                 "queue", "send", "update")  # fmt: skip

    def __init__(self, context: Context, parameters: Any, queue: int, kept: object) -> None:
        """Make it from CUDA_KERNEL_NODE_PARAMS_v2; raises DriverError. `kept`, the kernel's module, outlives it."""
        driver = context.driver
        self._kept = kept
        self._context = context
        self._graph, self._instance, node = c_void_p(), c_void_p(), c_void_p()
        with context.current(), _allowed(driver):
            driver.call("cuGraphCreate", byref(self._graph), 0)
            driver.call("cuGraphAddKernelNode_v2", byref(node), self._graph, None, 0, parameters)
            driver.call("cuGraphInstantiateWithFlags", byref(self._instance), self._graph, 0)
        self.node, self.instance = c_void_p.from_param(node.value), c_void_p.from_param(self._instance.value)
        self.queue = c_void_p.from_param(queue)
        self.current = c_void_p()
        if queue in _DEFAULT:
            self.look = driver.quick("cuCtxGetCurrent", holds_gil=True)
            self.at: tuple[Any, ...] = (byref(self.current),)
            self.expected: int | None = context.handle
        else:
            self.look = driver.quick("cuStreamIsCapturing", holds_gil=True)
            self.at = (self.queue, byref(self.current))
            self.expected = None
        _alive.add(id(self))
        self.update = driver.quick("cuGraphExecKernelNodeSetParams_v2", holds_gil=True)
        self.send = driver.quick("cuGraphLaunch")

    def __del__(self) -> None:
        _alive.discard(id(self))
        driver = self._context.driver
        if driver.pid != os.getpid():
            return  # a forked child: the driver belongs to the parent
        with contextlib.suppress(DriverError), self._context.current(), _allowed(driver):
            if self._instance:
                driver.call("cuGraphExecDestroy", self._instance)
            if self._graph:
                driver.call("cuGraphDestroy", self._graph)


def replay(context: Context, parameters: Any, queue: int, kept: object) -> Replay | None:
    """Return a graph for launches on stream `queue`, None if launches must be plain."""
    try:
        with context.current():
            usable = can_replay(context.driver) and _usable(context, queue)
        return Replay(context, parameters, queue, kept) if usable else None
    except DriverError:
        return None  # the plain launch finds the same error, and reports it


def _usable(context: Context, queue: int) -> bool:
    if queue in _DEFAULT:
        return True
    if queue == _PER_THREAD:
        return False
    driver, state, priority, owner = context.driver, c_int(), c_int(), c_void_p()
    driver.call("cuStreamIsCapturing", queue, byref(state))
    driver.call("cuStreamGetPriority", queue, byref(priority))
    driver.call("cuStreamGetCtx", queue, byref(owner))
    return not state.value and not priority.value and owner.value == context.handle


@contextlib.contextmanager
def _allowed(driver: Driver) -> Iterator[None]:
    """Let this thread allocate and free while another one captures."""
    mode = c_int(_RELAXED)
    driver.call("cuThreadExchangeStreamCaptureMode", byref(mode))
    try:
        yield
    finally:
        driver.call("cuThreadExchangeStreamCaptureMode", byref(mode))
