"""Launches that repeat become CUDA graphs, and nothing but their cost changes; on a driver that stands in."""

import ctypes
import gc
import math
import threading
from array import array
from collections.abc import Callable

import pytest
from array_samples import Library
from runtime_samples import counter, write_set

from gpuforge.runtime import DriverError, Kernel, KernelSet
from gpuforge.runtime.backends.cuda import kernel as replaying
from gpuforge.runtime.process import shared

A = ctypes.c_float(2.0)
MANY = replaying.BEFORE + 4


pytestmark = pytest.mark.usefixtures("two_devices")


def set_counter(stub: str, name: str, value: int) -> None:
    kind = ctypes.c_uint64 if name == "stub_capturing" else ctypes.c_int
    kind.in_dll(ctypes.CDLL(stub), name).value = value


Launched = Callable[..., list[float]]


@pytest.fixture
def launched(libraries: dict[str, Library]) -> Launched:
    """A function that returns y after `times` times y += 2 * 1, or with as many elements as each launch says."""
    library = libraries["torch"]

    def launched(kernel: Kernel, times: int, *, bound: bool = False, stream: int = 0) -> list[float]:
        with library.using(stream):
            ones, y = library.array(1), library.array(0)
            if bound:
                again = kernel.bind(1, 32, ctypes.c_ulonglong(3), A, ones, y)
                for _ in range(times):
                    again()
            else:
                for step in range(times):
                    kernel.launch(1, 32, ctypes.c_ulonglong(3 - step % 3), A, ones, y)
            return y.tolist()

    return launched


@pytest.mark.parametrize("stream", [0, 1, 0x55])
def test_each_launch_has_its_own_arguments(launched, kernel, stub, stream):
    assert launched(kernel, 30, stream=stream) == [60.0, 40.0, 20.0]
    assert counter(stub, "stub_replays") == 30 - replaying.BEFORE - 1  # the first one is looked at as a whole
    assert ctypes.c_ulonglong.in_dll(ctypes.CDLL(stub), "stub_stream").value == stream


@pytest.mark.parametrize("stream", [0, 0x55])
def test_a_bound_launch_is_replayed(launched, kernel, stub, stream):
    assert launched(kernel, 30, bound=True, stream=stream) == [60.0] * 3
    assert (counter(stub, "stub_replays"), counter(stub, "stub_updates")) == (30 - replaying.BEFORE, 0)


def test_zero_with_another_sign_is_another_argument(kernel, libraries):
    library = libraries["torch"]
    x, zero = library.array(1), library.array(-0.0)
    for _ in range(MANY):
        kernel.launch(1, 32, ctypes.c_ulonglong(0), ctypes.c_float(0.0), x, zero)
    kernel.launch(1, 32, ctypes.c_ulonglong(3), ctypes.c_float(-0.0), x, zero)
    assert [math.copysign(1, number) for number in zero.tolist()] == [-1, -1, -1]


def test_each_stream_has_a_graph_of_its_own(launched, kernel, stub):
    """One graph runs once at a time, so streams that shared it would wait for each other."""
    for stream in (0x55, 0x66, 0x55):
        launched(kernel, MANY, stream=stream)
    assert counter(stub, "stub_graphs") == 2


def test_after_many_streams_no_more_graphs_are_made(launched, kernel, stub):
    for stream in range(0x100, 0x100 + 40):
        assert launched(kernel, MANY, stream=stream)[2] > 0
        assert ctypes.c_ulonglong.in_dll(ctypes.CDLL(stub), "stub_stream").value == stream
    assert counter(stub, "stub_graphs") == 16


def test_a_launch_into_a_capture_is_a_plain_one(launched, kernel, stub):
    launched(kernel, MANY, stream=0x55)
    set_counter(stub, "stub_capturing", 0x55)
    before = counter(stub, "stub_replays")
    assert launched(kernel, MANY, stream=0x55)[2] > 0
    assert launched(kernel, MANY, bound=True, stream=0x55) == [2.0 * MANY] * 3
    assert counter(stub, "stub_replays") == before
    set_counter(stub, "stub_capturing", 0)
    launched(kernel, 3, stream=0x55)
    assert counter(stub, "stub_replays") == before + 3


@pytest.mark.parametrize("bound", [False, True])
def test_a_stream_with_a_priority_keeps_it(launched, kernel, stub, bound):
    set_counter(stub, "stub_priority", -3)
    launched(kernel, MANY, bound=bound, stream=0x55)
    assert counter(stub, "stub_graphs") == 0


def test_the_per_thread_stream_is_no_one_streams(launched, kernel, stub):
    launched(kernel, MANY, stream=2)
    assert counter(stub, "stub_graphs") == 0


@pytest.mark.parametrize("bound", [False, True])
def test_another_context_current_is_put_back(launched, kernel, stub, bound):
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


@pytest.mark.parametrize("stream", [0, 0x55])
@pytest.mark.parametrize("bound", [False, True])
def test_a_thread_without_a_context_launches_what_another_thread_repeated(launched, kernel, bound, stream):
    """The driver's update of a graph ends the process where no context is current, and so does the stand-in's."""
    launched(kernel, MANY, bound=bound, stream=stream)
    found: list[list[float]] = []
    thread = threading.Thread(target=lambda: found.append(launched(kernel, 3, bound=bound, stream=stream)))
    thread.start()
    thread.join()
    assert found == [[6.0] * 3 if bound else [6.0, 4.0, 2.0]]


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(
    ("name", "value"), [("GPUFORGE_LAUNCH_GRAPHS", "0"), ("CUDA_INJECTION64_PATH", "/nsys")]
)
def test_graphs_are_switched_off(launched, kernel, stub, monkeypatch, name, value, bound):
    monkeypatch.setenv(name, value)
    launched(kernel, MANY, bound=bound)
    assert counter(stub, "stub_graphs") == 0


@pytest.mark.thorough
@pytest.mark.parametrize("bound", [False, True])
def test_a_graph_that_cannot_be_made_or_changed_is_not_missed(launched, kernel, stub, monkeypatch, bound):
    monkeypatch.setenv("STUB_GRAPH", "update")
    assert launched(kernel, 30, bound=bound)[2] > 0
    monkeypatch.setenv("STUB_GRAPH", "instantiate")
    assert launched(kernel, 30, bound=bound, stream=0x55)[2] > 0
    gc.collect()
    assert counter(stub, "stub_graphs") == (0 if bound else 1)


@pytest.mark.parametrize("bound", [False, True])
def test_a_failed_replay_is_an_error(launched, kernel, monkeypatch, bound):
    monkeypatch.setenv("STUB_GRAPH", "launch")
    with pytest.raises(DriverError, match=r"^cuGraphLaunch"):
        launched(kernel, MANY, bound=bound)


def test_an_old_driver_has_none(old_stub, tmp_path):
    kernel = KernelSet(write_set(tmp_path / "s", toolkit="11.4"), env={}, driver=old_stub).function("saxpy")
    y = array("f", [0.0] * 3)
    with kernel.upload(array("f", [1.0] * 3)) as ones, kernel.upload(y) as memory:
        again = kernel.bind(1, 32, ctypes.c_ulonglong(3), A, ones, memory)
        for _ in range(30):
            kernel.launch(1, 32, ctypes.c_ulonglong(3), A, ones, memory)
            again()
        memory.read(y)
    assert list(y) == [120.0] * 3


def test_launches_of_memory_alone_are_replayed_on_the_default_stream(kernel, stub):
    y = array("f", [0.0] * 3)
    with kernel.upload(array("f", [1.0] * 3)) as ones, kernel.upload(y) as memory:
        for _ in range(30):
            kernel.launch(1, 32, ctypes.c_ulonglong(3), A, ones, memory)
        kernel.launch(1, 32, ctypes.c_ulonglong(3), A, ones, memory, stream=0x55)
        kernel.launch(1, 32, ctypes.c_ulonglong(3), A, ones, memory)
        memory.read(y)
    assert list(y) == [64.0] * 3
    assert counter(stub, "stub_replays") == 30 - replaying.BEFORE - 1


def test_launches_on_two_devices_have_their_own_graphs(kernel, libraries, stub, monkeypatch):
    library = libraries["torch"]
    arrays = [(library.array(1, device), library.array(0, device)) for device in (0, 1)]
    for _ in range(MANY):
        for x, y in arrays:
            kernel.launch(1, 32, ctypes.c_ulonglong(3), A, x, y)
            kernel.launch(1, 32, ctypes.c_ulonglong(3), A, x, y)
    assert [y.tolist() for _, y in arrays] == [[4.0 * MANY] * 3] * 2
    assert counter(stub, "stub_graphs") == 2


@pytest.mark.thorough
def test_graphs_go_with_their_kernel(launched, kernels, stub):
    kernel = kernels.function("saxpy")
    launched(kernel, MANY)
    launched(kernel, MANY, bound=True)
    assert counter(stub, "stub_graphs") == 1, "the bound launch is gone, and its graph"
    kernels.release()
    del kernel
    gc.collect()
    assert (counter(stub, "stub_graphs"), counter(stub, "stub_unloads")) == (0, 1)


def test_there_is_a_limit(launched, kernel, stub, monkeypatch):
    """Each takes memory of the device."""
    monkeypatch.setattr(replaying, "_MOST", len(shared().graphs) + 1)
    launched(kernel, MANY)
    launched(kernel, MANY, stream=0x55)
    assert counter(stub, "stub_graphs") == 1


def test_a_bound_launch_is_called_from_many_threads(kernel, stub):
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
