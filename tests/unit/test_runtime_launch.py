"""Kernels are launched with the arguments, streams and contexts of other libraries, on a driver that stands in."""

import ctypes
import re
from array import array
from typing import Any

import numpy as np
import pytest
from dlpack_samples import Capsuled
from runtime_samples import counter, write_set
from thread_samples import in_threads

from gpuforge.runtime import Kernel, KernelSet
from gpuforge.runtime.backends.cuda.kernel import reader
from gpuforge.runtime.driver import opened_driver

N, A = ctypes.c_ulonglong(3), ctypes.c_float(2.0)


class HasInterface:
    """An array as CuPy and Numba have them."""

    def __init__(self, address: int, stream: int | None = None, **changed: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (3,), "typestr": "<f4", "data": (address, False), "version": 3, "stream": stream, **changed,
        }  # fmt: skip


class HasStream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 0x55


def run(kernel: Kernel, wrap: Any = lambda memory: memory, **options: Any) -> list[float]:
    x, y = array("f", [1, 2, 3]), array("f", [10, 20, 30])
    with kernel.upload(x) as device_x, kernel.upload(y) as device_y:
        kernel.launch(1, 32, N, A, wrap(device_x), wrap(device_y), **options)
        device_y.read(y, **{k: v for k, v in options.items() if k == "stream"})
    return list(y)


def test_arrays_are_passed_by_their_interface(kernel):
    assert run(kernel, lambda memory: HasInterface(memory.address)) == [12, 24, 36]


def test_memory_is_an_array_for_others(kernel):
    with kernel.memory(8) as memory:
        assert memory.__cuda_array_interface__["data"] == (memory.address, False)


def test_arrays_are_passed_by_dlpack(kernel):
    made: list[Capsuled] = []
    assert run(kernel, lambda memory: made.append(Capsuled(memory.address)) or made[-1]) == [12, 24, 36]
    assert made[0].streams == [1], "its library is told the launch's stream: the default one"


DENSE = [((3, 2), (8, 4)), ((3, 2), (4, 12)), ((2, 1, 3), (12, 99, 4)), ((0, 2), (7, 7)), ((), ())]
GAPS = [((3,), (8,)), ((3,), (-4,)), ((3,), (0,)), ((3, 2), (12, 4)), ((2, 2), (4, 4))]


@pytest.mark.parametrize(("shape", "strides"), DENSE)
def test_an_array_without_gaps_is_passed_in_any_order_of_its_axes(kernel, shape, strides):
    assert run(kernel, lambda memory: HasInterface(memory.address, shape=shape, strides=strides)) == [
        12,
        24,
        36,
    ]


@pytest.mark.parametrize(("shape", "strides"), GAPS)
def test_an_array_with_gaps_is_refused(kernel, shape, strides):
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole message is compared
        run(kernel, lambda memory: HasInterface(memory.address, shape=shape, strides=strides))
    assert str(error.value) == (
        f"HasInterface of shape {shape} with strides {strides} is not contiguous, and a kernel only gets its address: "
        "pass a contiguous copy (ascontiguousarray of NumPy and CuPy, contiguous of torch). If the kernel takes the "
        "strides as arguments, pass the address as ctypes.c_void_p"
    )


def test_strides_of_dlpack_count_elements(kernel):
    assert run(kernel, lambda memory: Capsuled(memory.address, strides=(1, 3))) == [12, 24, 36]
    with pytest.raises(
        ValueError, match=r"^Capsuled of shape \(3, 2\) with strides \(4, 1\) is not contiguous"
    ):
        run(kernel, lambda memory: Capsuled(memory.address, strides=(4, 1)))


@pytest.mark.parametrize(
    "host", [array("f", [1]), b"1234", bytearray(4)], ids=["array", "bytes", "bytearray"]
)
def test_host_memory_is_refused_with_what_to_do(kernel, host):
    with pytest.raises(TypeError) as error:
        kernel.launch(1, 1, N, A, host, host)
    assert str(error.value) == (
        f"argument 2: {type(host).__name__} is host memory, which no kernel can read: copy it with "
        "kernel.upload(array), and the result back with Memory.read(array)"
    )


def test_an_array_in_host_memory_that_speaks_dlpack_is_refused_also_after_one_on_the_gpu(kernel):
    with kernel.memory(12) as memory:
        kernel.launch(1, 1, N, A, Capsuled(memory.address), memory)
        with pytest.raises(
            TypeError,
            match=r"^Capsuled is host memory, which no kernel can read: copy it with kernel.upload\(array\), ",
        ):
            kernel.launch(1, 1, N, A, Capsuled(memory.address, device=1), memory)


def test_numbers_of_numpy_are_passed_as_they_are(kernel):
    numpy = pytest.importorskip("numpy")
    x, y = numpy.array([1, 2, 3], "f4"), numpy.array([10, 20, 30], "f4")
    with kernel.upload(x) as device_x, kernel.upload(y) as device_y:
        kernel.launch((1,), (32, 1), numpy.uint64(3), numpy.float32(2), device_x, device_y)
        device_y.read(y)
    assert list(y) == [12, 24, 36]
    with pytest.raises(TypeError, match=r"^argument 2: ndarray is host memory"):
        kernel.launch(1, 32, numpy.uint64(3), numpy.float32(2), x, y)


def test_the_sizes_of_arguments_are_checked(listed):
    numpy = pytest.importorskip("numpy")
    with pytest.raises(
        TypeError, match=r"^argument 1: numpy.float64 has 8 bytes, and the parameter has 4 bytes"
    ):
        listed.launch(1, 32, numpy.uint64(3), numpy.float64(2), HasInterface(8), HasInterface(8))


def test_the_number_of_arguments_is_checked(listed):
    with pytest.raises(TypeError, match=r"^saxpy\(.*\) takes 4 arguments, and 1 are given$"):
        listed.launch(1, 1, N)


@pytest.mark.parametrize(
    "stream", [0x55, HasStream(), ctypes.c_void_p(0x55)], ids=["number", "protocol", "ctypes"]
)
def test_a_stream_of_every_kind(kernel, stub, stream):
    assert run(kernel, stream=stream, shared=96) == [12, 24, 36]
    assert ctypes.c_ulonglong.in_dll(ctypes.CDLL(stub), "stub_stream").value == 0x55
    assert ctypes.c_ulonglong.in_dll(ctypes.CDLL(stub), "stub_shared").value == 96


def test_what_is_no_stream(kernel):
    with pytest.raises(TypeError, match=r"^a stream is a number or has __cuda_stream__, and str is neither$"):
        run(kernel, stream="mine")


@pytest.mark.parametrize("grid", [(1, 2, 3, 4), 1.5, "1", None])
def test_what_is_no_grid(kernel, grid):
    with pytest.raises(TypeError, match=r"^a grid is one to three whole numbers, not "):
        kernel.launch(grid, 1, N, A, HasInterface(8), HasInterface(8))


@pytest.mark.parametrize("grid", [-1, 0, 1 << 40, (1, 0)])
def test_a_grid_out_of_range(kernel, grid):
    with pytest.raises(ValueError, match=rf"^grid {re.escape(str(grid))}: its axis [xy] is "):
        kernel.launch(grid, 1, N, A, HasInterface(8), HasInterface(8))


def test_a_bound_launch_repeats_itself(kernel, stub):
    y = array("f", [1, 1, 1])
    with kernel.upload(array("f", [1, 2, 3])) as device_x, kernel.upload(y) as device_y:
        again = kernel.bind(1, 32, N, A, device_x, device_y)
        assert counter(stub, "stub_launches") == 0
        again()
        again()
        device_y.read(y)
    assert list(y) == [5, 9, 13]


def test_a_kernel_is_found_again_and_not_in_a_forked_child(kernels):
    assert kernels.function("saxpy") is kernels.function("saxpy")
    assert kernels.function("saxpy", module="saxpy").name == "saxpy"


def test_switching_the_gpu_off_counts_after_a_kernel_was_found(stub, tmp_path):
    env: dict[str, str] = {}
    kernels = KernelSet(write_set(tmp_path / "s"), env=env, driver=stub)
    kernels.function("saxpy")
    env["GPUFORGE_DISABLE_GPU"] = "1"
    with pytest.raises(Exception, match=r"^switched off \(GPUFORGE_DISABLE_GPU=1\)$"):
        kernels.function("saxpy")


def push(stub: str, context: int) -> Any:
    library = ctypes.CDLL(stub)
    library.cuCtxPushCurrent_v2(ctypes.c_void_p(context))
    return library


def test_the_callers_context_is_used_and_left_current(kernels, stub):
    with pytest.raises(ValueError, match=r"^no CUDA context is current in this thread$"):
        kernels.function("saxpy", context="current")
    library = push(stub, 0x33)
    try:
        current = kernels.function("saxpy", context="current")
        assert run(current) == [12, 24, 36]
        assert run(kernels.function("saxpy", context=0x44)) == [12, 24, 36]
        kernels.function("saxpy", device=0).bind(
            1, 1, ctypes.c_ulonglong(0), A, HasInterface(8), HasInterface(8)
        )()
        assert run(kernels.function("saxpy")) == [12, 24, 36]
        held = ctypes.c_void_p()
        library.cuCtxGetCurrent(ctypes.byref(held))
        assert (held.value, library.stub_depth()) == (0x33, 1)
    finally:
        library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    assert counter(stub, "stub_crossed") == 0


@pytest.mark.thorough
@pytest.mark.parametrize("driver", ["stub", pytest.param("old_stub", marks=pytest.mark.thorough)])
def test_contexts_and_threads_do_not_cross(request, driver, tmp_path):
    """Two contexts, eight threads, one set, each thread with its own context current or none."""
    stub = request.getfixturevalue(driver)
    kernels = KernelSet(write_set(tmp_path / "s", toolkit="11.4"), env={}, driver=stub)
    wrong: list[object] = []

    def work(seed: int) -> None:
        library = push(stub, 0x33 + seed % 2) if seed % 3 else None
        for _ in range(50):
            kernel = kernels.function("saxpy", context=0x33 + seed // 4)
            again = run(kernel)
            wrong.extend([] if again == [12, 24, 36] else [again])
        if library is not None:
            library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    in_threads(work)
    assert wrong == []
    assert counter(stub, "stub_crossed") == 0
    assert counter(stub, "stub_loads") == 2, "a module is loaded once for each context"


@pytest.mark.parametrize("driver", ["stub", "old_stub"])
def test_a_kernel_in_use_survives_the_release_of_its_context(request, driver, tmp_path):
    stub = request.getfixturevalue(driver)
    kernels = KernelSet(write_set(tmp_path / "s", toolkit="11.4"), env={}, driver=stub)
    kernel = kernels.function("saxpy", context=0x33)
    kernels.function("saxpy", context=0x34)
    kernels.release(context=0x33)
    assert counter(stub, "stub_unloads") == 0
    assert run(kernel) == [12, 24, 36]
    del kernel
    assert counter(stub, "stub_unloads") == 1
    kernels.release(context=0x33)
    assert counter(stub, "stub_unloads") == 1, "the other context keeps its own"
    assert run(kernels.function("saxpy", context=0x34)) == [12, 24, 36]
    assert counter(stub, "stub_loads") == 2


def test_release_unloads_what_the_set_remembers_and_loads_it_again(stub, kernels):
    kernels.function("saxpy")
    kernels.release()
    kernels.release()
    assert (counter(stub, "stub_loads"), counter(stub, "stub_unloads")) == (1, 1)
    assert run(kernels.function("saxpy")) == [12, 24, 36]
    assert counter(stub, "stub_loads") == 2


def test_release_never_opens_a_driver(stub, tmp_path):
    kernels = KernelSet(write_set(tmp_path / "s"), env={}, driver=stub)
    kernels.release()
    kernels.release(context="current")
    assert opened_driver((stub,)) is None


def test_an_old_driver_has_no_libraries_and_runs_all_the_same(old_stub, tmp_path):
    kernels = KernelSet(write_set(tmp_path / "s", toolkit="11.4"), env={}, driver=old_stub)
    assert run(kernels.function("saxpy"), stream=0x55) == [12, 24, 36]
    y = array("f", [1.0])
    kernel = kernels.function("saxpy")
    with kernel.upload(y) as memory:
        kernel.bind(1, 1, ctypes.c_ulonglong(1), A, memory, memory)()
        memory.read(y)
    assert list(y) == [3.0]


@pytest.mark.parametrize(
    ("value", "code", "size"),
    [
        (ctypes.c_int8(1), "b", 1),
        (ctypes.c_double(1), "d", 8),
        (ctypes.c_bool(True), "?", 1),
        (ctypes.c_void_p(1), "P", 8),
        (ctypes.c_size_t(1), "Q", 8),
    ],
)
def test_numbers_of_ctypes(value, code, size):
    found = reader(0, value)
    assert (found.code, found.given.size) == (code, size)


def test_a_struct_is_passed_by_value():
    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_double))

    found = reader(0, Pair(1, 2.0))
    assert (found.given.size, found.value(Pair(1, 2.0))) == (16, bytes(Pair(1, 2.0)))


@pytest.mark.parametrize("value", [ctypes.py_object(1), ctypes.c_longdouble(1)])
def test_numbers_that_no_gpu_has(value):
    with pytest.raises(
        TypeError, match=r"is not a type that a kernel can have|is a Python object, not a number of C"
    ):
        reader(0, value)


def test_a_copy_of_other_numbers_is_refused_as_the_array_is(tmp_path, stub):
    types = ["unsigned long long", "float", "const float4 *", "float4 *"]
    kernel = KernelSet(write_set(tmp_path / "typed", parameters=types), env={}, driver=stub).function("saxpy")
    numbers = np.zeros(8, "f2")
    with kernel.upload(numbers) as half, kernel.upload(numbers.astype("f4")) as right:
        with pytest.raises(
            TypeError, match=r"^argument 3: an array of float16 \(gpuforge\.Memory\) is given"
        ):
            kernel.launch(1, 1, np.uint64(1), np.float32(1), right, half)
        kernel.launch(1, 1, np.uint64(1), np.float32(1), right, right)
