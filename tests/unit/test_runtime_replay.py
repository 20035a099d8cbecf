"""Launches that repeat become CUDA graphs, and nothing but their cost changes; on a driver that stands in."""

from __future__ import annotations

import ctypes
import gc
import threading
from array import array
from pathlib import Path

import pytest
from runtime_samples import counter, write_set

from gpuforge.runtime import DriverError, Kernel, KernelSet
from gpuforge.runtime import replay as replaying
from gpuforge.runtime.frame import BEFORE_REPLAY

A = ctypes.c_float(2.0)
MANY = BEFORE_REPLAY + 4


@pytest.fixture
def kernel(kernels: KernelSet) -> Kernel:
    return kernels.function("saxpy")


def set_counter(stub: str, name: str, value: int) -> None:
    ctypes.c_int.in_dll(ctypes.CDLL(stub), name).value = value


def launched(kernel: Kernel, times: int, *, bound: bool = False, stream: int = 0) -> list[float]:
    """y after `times` times y += 2 * 1, or the like with as many elements as each launch says."""
    y = array("f", [0.0] * 3)
    with kernel.upload(array("f", [1.0] * 3)) as ones, kernel.upload(y) as memory:
        if bound:
            again = kernel.bind(1, 32, ctypes.c_ulonglong(3), A, ones, memory, stream=stream)
            for _ in range(times):
                again()
        else:
            for step in range(times):
                n = ctypes.c_ulonglong(3 - step % 3)
                kernel.launch(1, 32, n, A, ones, memory, shared=step, stream=stream)
                assert (
                    ctypes.c_ulonglong.in_dll(ctypes.CDLL(kernel_driver(kernel)), "stub_shared").value == step
                )
        memory.read(y)
    return list(y)


def kernel_driver(kernel: Kernel) -> str:
    return str(kernel._context.driver.c._name)


@pytest.mark.parametrize("stream", [0, 1, 0x55])
def test_each_launch_has_its_own_arguments(kernel: Kernel, stub: str, stream: int) -> None:
    assert launched(kernel, 30, stream=stream) == [60.0, 40.0, 20.0]
    assert counter(stub, "stub_replays") == 30 - BEFORE_REPLAY
    assert ctypes.c_ulonglong.in_dll(ctypes.CDLL(stub), "stub_stream").value == stream


@pytest.mark.parametrize("stream", [0, 0x55])
def test_a_bound_launch_is_replayed(kernel: Kernel, stub: str, stream: int) -> None:
    assert launched(kernel, 30, bound=True, stream=stream) == [60.0] * 3
    assert (counter(stub, "stub_replays"), counter(stub, "stub_updates")) == (30 - BEFORE_REPLAY, 0)


def test_each_stream_has_a_graph_of_its_own(kernel: Kernel, stub: str) -> None:
    """One graph runs once at a time, so streams that shared it would wait for each other."""
    for stream in (0x55, 0x66, 0x55):
        launched(kernel, MANY, stream=stream)
    assert counter(stub, "stub_graphs") == 2


def test_after_many_streams_no_more_graphs_are_made(kernel: Kernel, stub: str) -> None:
    for stream in range(0x100, 0x100 + 40):
        assert launched(kernel, MANY, stream=stream)[2] > 0
        assert ctypes.c_ulonglong.in_dll(ctypes.CDLL(stub), "stub_stream").value == stream
    assert counter(stub, "stub_graphs") == 16


def test_a_launch_into_a_capture_is_a_plain_one(kernel: Kernel, stub: str) -> None:
    launched(kernel, MANY, stream=0x55)
    set_counter(stub, "stub_capturing", 1)
    before = counter(stub, "stub_replays")
    assert launched(kernel, MANY, stream=0x55)[2] > 0
    assert launched(kernel, MANY, bound=True, stream=0x55) == [2.0 * MANY] * 3
    assert counter(stub, "stub_replays") == before
    set_counter(stub, "stub_capturing", 0)
    launched(kernel, 3, stream=0x55)
    assert counter(stub, "stub_replays") == before + 3


@pytest.mark.parametrize("bound", [False, True])
def test_a_stream_with_a_priority_keeps_it(kernel: Kernel, stub: str, bound: bool) -> None:
    set_counter(stub, "stub_priority", -3)
    launched(kernel, MANY, bound=bound, stream=0x55)
    assert counter(stub, "stub_graphs") == 0


def test_the_per_thread_stream_is_no_one_streams(kernel: Kernel, stub: str) -> None:
    launched(kernel, MANY, stream=2)
    assert counter(stub, "stub_graphs") == 0


@pytest.mark.parametrize("bound", [False, True])
def test_another_context_current_is_put_back(kernel: Kernel, stub: str, bound: bool) -> None:
    launched(kernel, MANY, bound=bound)
    library = ctypes.CDLL(stub)
    library.cuCtxPushCurrent_v2(ctypes.c_void_p(0x33))
    try:
        launched(kernel, MANY, bound=bound)
        held = ctypes.c_void_p()
        library.cuCtxGetCurrent(ctypes.byref(held))
        assert held.value == 0x33
    finally:
        library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    assert counter(stub, "stub_crossed") == 0


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(
    ("name", "value"), [("GPUFORGE_LAUNCH_GRAPHS", "0"), ("CUDA_INJECTION64_PATH", "/nsys")]
)
def test_graphs_are_switched_off(
    kernel: Kernel, stub: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str, bound: bool
) -> None:
    monkeypatch.setenv(name, value)
    launched(kernel, MANY, bound=bound)
    assert counter(stub, "stub_graphs") == 0


@pytest.mark.parametrize("bound", [False, True])
def test_a_graph_that_cannot_be_made_or_changed_is_not_missed(
    kernel: Kernel, stub: str, monkeypatch: pytest.MonkeyPatch, bound: bool
) -> None:
    monkeypatch.setenv("STUB_GRAPH", "update")
    assert launched(kernel, 30, bound=bound)[2] > 0
    monkeypatch.setenv("STUB_GRAPH", "instantiate")
    assert launched(kernel, 30, bound=bound, stream=0x55)[2] > 0
    gc.collect()
    assert counter(stub, "stub_graphs") == (0 if bound else 1)


@pytest.mark.parametrize("bound", [False, True])
def test_a_failed_replay_is_an_error(kernel: Kernel, monkeypatch: pytest.MonkeyPatch, bound: bool) -> None:
    monkeypatch.setenv("STUB_GRAPH", "launch")
    with pytest.raises(DriverError, match=r"^cuGraphLaunch"):
        launched(kernel, MANY, bound=bound)


def test_an_old_driver_has_none(old_stub: str, tmp_path: Path) -> None:
    kernels = KernelSet(write_set(tmp_path / "s", toolkit="11.4"), env={}, driver=old_stub)
    assert launched(kernels.function("saxpy"), 30) == [60.0, 40.0, 20.0]
    assert launched(kernels.function("saxpy"), 30, bound=True) == [60.0] * 3


def test_graphs_go_with_their_kernel(kernels: KernelSet, stub: str) -> None:
    kernel = kernels.function("saxpy")
    launched(kernel, MANY)
    launched(kernel, MANY, bound=True)
    assert counter(stub, "stub_graphs") == 1, "the bound launch is gone, and its graph"
    kernels.release()
    del kernel
    gc.collect()
    assert (counter(stub, "stub_graphs"), counter(stub, "stub_unloads")) == (0, 1)


def test_there_is_a_limit(kernel: Kernel, stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes memory of the device."""
    monkeypatch.setattr(replaying, "_MOST", len(replaying._alive) + 1)
    launched(kernel, MANY)
    launched(kernel, MANY, stream=0x55)
    assert counter(stub, "stub_graphs") == 1


def test_a_bound_launch_is_called_from_many_threads(kernel: Kernel, stub: str) -> None:
    y = array("f", [0.0])
    with kernel.upload(array("f", [0.0])) as zero, kernel.upload(y) as memory:
        again = kernel.bind(1, 1, ctypes.c_ulonglong(1), A, zero, memory)
        threads = [threading.Thread(target=lambda: [again() for _ in range(200)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counter(stub, "stub_launches") == 1600
    assert counter(stub, "stub_crossed") == 0
