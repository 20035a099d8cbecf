"""The runtime on a real GPU with the arrays, streams and contexts of other libraries, and with many of each at once."""

import ctypes
import threading
from array import array
from typing import Any

import pytest
from ptx_samples import ADD, ENTRY, HEAD, LISTED_ADD, kernel_set
from thread_samples import COUNT, in_threads

from gpuforge.runtime import DriverError, Kernel, probe

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

KERNELS = 300
NONE = ctypes.c_uint32(0)


def current() -> int:
    held = ctypes.c_void_p()
    assert ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(held)) == 0
    return held.value or 0


def added(kernel: Kernel, **options: Any) -> list[float]:
    """1 + 2, in host memory that is copied in and out."""
    y = array("f", [2.0] * 32)
    with kernel.upload(array("f", [1.0] * 32)) as device_x, kernel.upload(y) as device_y:
        kernel.launch(1, 32, device_x, device_y, NONE, **options)
        device_y.read(y, stream=options.get("stream"))
    return list(y)


def test_host_arrays_are_copied_in_and_out(add):
    assert added(add) == [3.0] * 32


def test_arguments_are_checked_by_what_the_index_lists(tmp_path):
    add = kernel_set(tmp_path / "listed", HEAD + ADD, LISTED_ADD).function("add")
    with add.memory(128) as memory:
        with pytest.raises(
            TypeError, match=r"^argument 2: ctypes.c_double has 8 bytes, and the parameter has 4 bytes"
        ):
            add.launch(1, 32, memory, memory, ctypes.c_double(0))
        with pytest.raises(TypeError, match=r"^add\(.*\) takes 3 arguments, and 2 are given$"):
            add.launch(1, 32, memory, memory)


def test_a_bound_launch_repeats_itself(add):
    y = array("f", [0.0] * 32)
    with add.upload(array("f", [1.0] * 32)) as device_x, add.upload(y) as device_y:
        again = add.bind(1, 32, device_x, device_y, NONE)
        for _ in range(2000):
            again()
        device_y.read(y)
    assert list(y) == [2000.0] * 32


def test_arrays_and_streams_of_cupy(add):
    cupy = pytest.importorskip("cupy")
    for stream in (None, cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.null):
        with stream or cupy.cuda.Stream.null:
            x, y = cupy.ones(32, "f4"), cupy.full(32, 2, "f4")
            add.launch(1, 32, x, y, NONE, stream=stream)
            assert cupy.asnumpy(y).tolist() == [3.0] * 32


class DLPackOnly:
    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, *, stream: int) -> Any:
        return self._array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_arrays_by_dlpack(add):
    cupy = pytest.importorskip("cupy")
    both = cupy.arange(64, dtype="f4")
    x, y = both[32:], cupy.zeros(32, "f4")
    add.launch(1, 32, DLPackOnly(x), DLPackOnly(y), NONE)
    assert cupy.asnumpy(y).tolist() == [float(i) for i in range(32, 64)]


def test_arrays_and_streams_of_torch(add):
    torch = pytest.importorskip("torch")
    x, y = torch.ones(32, device="cuda"), torch.full((32,), 2.0, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    add.launch(1, 32, x, y, NONE, stream=stream)
    stream.synchronize()
    assert y.tolist() == [3.0] * 32
    with pytest.raises(TypeError, match="Tensor is host memory, which no kernel can read"):
        add.launch(1, 32, torch.ones(32), y, NONE)


def test_streams_and_arrays_of_cuda_core(add):
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    assert added(add, stream=stream) == [3.0] * 32
    buffer = device.allocate(128, stream=stream)
    stream.sync()
    y = array("f", [5.0] * 32)
    with add.upload(array("f", [1.0] * 32)) as ones, add.upload(y) as device_y:
        add.launch(1, 32, device_y, ones, NONE, stream=stream)
        add.launch(1, 32, ones, DLPackOnly(buffer), NONE, stream=stream)
        stream.sync()


def test_memory_is_an_array_of_cupy(add):
    cupy = pytest.importorskip("cupy")
    with add.upload(array("f", [1.5] * 32)) as memory:
        assert cupy.asarray(memory).view("f4").get().tolist() == [1.5] * 32


def test_the_callers_context(adding, second_context):
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuCtxPushCurrent_v2(ctypes.c_void_p(second_context))
    try:
        for context in ("current", second_context, ctypes.c_void_p(second_context)):
            assert added(adding.function("add", context=context)) == [3.0] * 32
            assert current() == second_context
        assert added(adding.function("add")) == [3.0] * 32
        assert current() == second_context, "the primary context was used and left again"
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def test_a_fault_is_named_and_says_what_to_do(adding, second_context):
    """In a context of its own: it takes the context with it."""
    kernel = adding.function("add", context=second_context)
    driver = probe().driver
    assert driver is not None
    with pytest.raises(DriverError) as error, kernel.memory(128) as memory:
        kernel.launch(1, 2048, memory, memory, NONE)  # more threads than any block can have
    assert (error.value.code, error.value.name) == (1, "CUDA_ERROR_INVALID_VALUE")
    assert "block x is 2048, and GPU 0, " in str(error.value)


def test_two_contexts_eight_threads_three_hundred_kernels(tmp_path, second_context):
    """Each thread looks up and launches every kernel in its context; each leaves a number that only it leaves."""
    ptx = HEAD + "".join(ENTRY.format(number=number) for number in range(KERNELS))
    kernels = kernel_set(tmp_path / "many", ptx)
    contexts = [None, second_context]
    start = threading.Barrier(COUNT)
    wrong: list[object] = []

    def work(seed: int) -> None:
        context = contexts[seed % 2]
        start.wait()
        try:
            for step in range(KERNELS):
                number = (step * 7 + seed * 37) % KERNELS
                kernel = kernels.function(f"k{number}", context=context)
                out = array("I", [0])
                with kernel.memory(4) as memory:
                    kernel.launch(1, 1, memory, ctypes.c_uint32(seed))
                    memory.read(out)
                if out[0] != seed * 1000 + number:
                    wrong.append((seed, number, out[0]))
        except BaseException as error:
            wrong.append(error)
            raise

    in_threads(work)
    assert wrong == []


def test_several_sets_in_one_process(tmp_path, adding):
    other = kernel_set(tmp_path / "other", HEAD + ENTRY.format(number=5))
    out = array("I", [0])
    kernel = other.function("k5")
    with kernel.memory(4) as memory:
        kernel.launch(1, 1, memory, ctypes.c_uint32(4))
        assert added(adding.function("add")) == [3.0] * 32
        memory.read(out)
    assert out[0] == 4005
