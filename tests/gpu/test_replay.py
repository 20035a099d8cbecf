"""Launches that repeat become CUDA graphs on a real GPU: the same results, orders, contexts and captures as before."""

from __future__ import annotations

import ctypes
import gc
import threading
from array import array
from pathlib import Path
from typing import Any

import pytest
from ptx_samples import ENTRY, HEAD, kernel_set

from gpuforge.runtime import DriverError, Kernel, KernelSet
from gpuforge.runtime.frame import BEFORE_REPLAY

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]
DELAY, NONE = ctypes.c_uint32(200_000), ctypes.c_uint32(0)
WARM = BEFORE_REPLAY + 2


def replays(kernel: Kernel) -> int:
    """How many frames of a kernel have a graph."""
    frames = [
        frame for layout in kernel._layouts.values() for home in layout.frames.values() for frame in home
    ]
    return sum(frame.replay is not None for frame in frames)


def test_each_launch_has_its_own_arguments(tmp_path: Path) -> None:
    """A hundred values, queued at once, each into a place of its own."""
    kernel = kernel_set(tmp_path / "s", HEAD + ENTRY.format(number=7)).function("k7")
    out = array("I", [0] * 100)
    with kernel.upload(out) as memory:
        for value in range(100):
            at = ctypes.c_void_p(memory.address + 4 * value)
            kernel.launch(1, 1, at, ctypes.c_uint32(value))
        memory.read(out)
    assert replays(kernel) == 1
    assert list(out) == [1000 * value + 7 for value in range(100)]


def test_a_bound_launch_and_its_graph_in_the_order_of_the_stream(add: Kernel) -> None:
    cupy = pytest.importorskip("cupy")
    for stream in (None, cupy.cuda.Stream(non_blocking=True)):
        with stream or cupy.cuda.Stream.null:
            x, y = cupy.ones(32, "f4"), cupy.zeros(32, "f4")
            again = add.bind(1, 32, x, y, NONE, stream=stream)
            for _ in range(100):
                again()
                y *= 0.5  # y = (y + 1) / 2, by CuPy, on the same stream
            assert cupy.asnumpy(y).tolist() == pytest.approx([1.0] * 32)
            assert again._frame.replay is not None


def test_streams_run_side_by_side(add: Kernel) -> None:
    """A launch on one stream does not wait for those of the same kernel on another."""
    cupy = pytest.importorskip("cupy")
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    x, y = cupy.ones(32, "f4"), [cupy.zeros(32, "f4") for _ in range(2)]
    cupy.cuda.Device().synchronize()
    for _ in range(WARM):
        for stream, out in zip(streams, y, strict=True):
            add.launch(1, 32, x, out, NONE, stream=stream)
    cupy.cuda.Device().synchronize()
    assert replays(add) == 2
    add.launch(1, 32, x, y[0], ctypes.c_uint32(50_000_000), stream=streams[0])  # about a second
    add.launch(1, 32, x, y[1], NONE, stream=streams[1])
    streams[1].synchronize()
    assert not streams[0].done
    cupy.cuda.Device().synchronize()


@pytest.mark.parametrize("bound", [False, True])
def test_captures_of_torch(add: Kernel, bound: bool) -> None:
    """What is captured is the kernel, also after a graph of its own was made; the capture is not spoilt."""
    torch = pytest.importorskip("torch")
    x, y = torch.ones(32, device="cuda"), torch.zeros(32, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    again = add.bind(1, 32, x, y, NONE, stream=stream)

    def step() -> None:
        again() if bound else add.launch(1, 32, x, y, NONE, stream=stream)

    for _ in range(WARM):
        step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
        step()
    y.zero_()
    torch.cuda.synchronize()
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    assert y.tolist() == [10.0] * 32


def test_a_graph_is_made_while_another_thread_captures(add: Kernel) -> None:
    """Making one allocates, which a capture of another thread forbids unless it is told not to."""
    torch = pytest.importorskip("torch")
    x, y, z = torch.ones(32, device="cuda"), torch.zeros(32, device="cuda"), torch.zeros(32, device="cuda")
    theirs, ours = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    found: list[Any] = []

    def work() -> None:
        try:
            for _ in range(WARM):
                add.launch(1, 32, x, y, NONE, stream=ours)
        except DriverError as error:
            found.append(error)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=theirs):
        z += 1
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        z += 1
    assert found == []
    graph.replay()
    torch.cuda.synchronize()
    assert (y.tolist(), z.tolist()) == ([float(WARM)] * 32, [2.0] * 32)


def test_a_graph_is_let_go_while_it_runs(adding: KernelSet) -> None:
    kernel = adding.function("add")
    y = array("f", [0.0] * 32)
    with kernel.upload(array("f", [1.0] * 32)) as ones, kernel.upload(y) as memory:
        again = kernel.bind(1, 32, ones, memory, NONE)
        for _ in range(WARM):
            again()
        slow = kernel.bind(1, 32, ones, memory, DELAY)
        for _ in range(WARM):
            slow()
        del again, slow
        gc.collect()
        memory.read(y)
    assert list(y) == [2.0 * WARM] * 32


def test_a_stream_with_a_priority_keeps_it(add: Kernel) -> None:
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True, priority=-3)
    with stream:
        x, y = cupy.ones(32, "f4"), cupy.zeros(32, "f4")
        for _ in range(WARM):
            add.launch(1, 32, x, y, NONE, stream=stream)
        assert cupy.asnumpy(y).tolist() == [float(WARM)] * 32
    assert replays(add) == 0


def test_a_foreign_context_is_left_current(add: Kernel) -> None:
    """Launches of a primary context's kernel while another context is current, before and after its graph."""
    driver = ctypes.CDLL("libcuda.so.1")
    context, held = ctypes.c_void_p(), ctypes.c_void_p()
    y = array("f", [0.0] * 32)
    with add.upload(array("f", [1.0] * 32)) as ones, add.upload(y) as memory:
        again = add.bind(1, 32, ones, memory, NONE)
        for _ in range(WARM):
            again()
            add.launch(1, 32, ones, memory, NONE)
        assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
        again()
        add.launch(1, 32, ones, memory, NONE)
        driver.cuCtxGetCurrent(ctypes.byref(held))
        assert held.value == context.value
        driver.cuCtxDestroy_v2(context)
        memory.read(y)
    assert list(y) == [2.0 * WARM + 2] * 32
