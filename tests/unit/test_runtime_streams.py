"""A launch goes where its arrays are, and takes its place in the order of their libraries' streams.

The driver that stands in runs queued work as late as it may, so that a missing order shows in the numbers.
"""

import ctypes
import itertools
from array import array
from pathlib import Path
from typing import Any

import numpy
import pytest
from array_samples import KINDS, PRIMARY
from runtime_samples import counter, write_set
from thread_samples import in_threads

from gpuforge.runtime import DriverError, KernelSet, KernelUnavailable

N, A = ctypes.c_ulonglong(3), ctypes.c_float(2.0)
STREAMS = [0, 2, 0x55]  # the default one, the thread's own, and one of the caller's


pytestmark = pytest.mark.usefixtures("two_devices")


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", [*KINDS])
def test_a_launch_comes_after_the_work_before_it_and_before_the_work_after_it(
    kernel, libraries, stub, name, stream, device
):
    library = libraries[name]
    for _ in range(3):
        with library.using(stream):
            x, y = library.array(1, device), library.array(10, device)
            kernel.launch(1, 32, N, A, x, y)
            assert y.tolist() == [12, 12, 12]
    assert counter(stub, "stub_crossed") == 0
    assert ctypes.c_ulonglong.in_dll(ctypes.CDLL(stub), "stub_stream").value == (
        0 if name == "dlpack" else stream
    )


def test_a_bound_launch_stays_on_the_device_and_the_stream_of_its_arrays(kernel, libraries):
    library = libraries["torch"]
    with library.using(0x55):
        x, y = library.array(1, 1), library.array(10, 1)
        again = kernel.bind(1, 32, N, A, x, y)
        again()
        again()
        assert y.tolist() == [14, 14, 14]


@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(KINDS, 2)])
def test_arrays_of_two_libraries_are_ordered_on_both_streams(kernel, libraries, first, second):
    one, two = libraries[first], libraries[second]
    with one.using(0x55), two.using(0x66):
        x, y = one.array(1, 1), two.array(10, 1)
        kernel.launch(1, 32, N, A, x, y)
        assert y.tolist() == [12, 12, 12]
        kernel.launch(1, 32, N, A, y, x)
        assert x.tolist() == [25, 25, 25]


@pytest.mark.parametrize("name", [*KINDS])
def test_memory_of_ours_follows_arrays_of_others(kernel, libraries, name):
    library = libraries[name]
    y = array("f", [0, 0, 0])
    with library.using(0x55):
        x = library.array(1)
        with kernel.upload(array("f", [10, 20, 30])) as memory:
            kernel.launch(1, 32, N, A, x, memory)
            with library.using(0x66):
                kernel.launch(1, 32, N, A, x, memory)
            kernel.launch(1, 32, N, A, memory, memory, stream=0x77)
            memory.read(y)
            assert list(y) == [42, 72, 102]
            kernel.launch(1, 32, N, A, x, memory)
            memory.write(array("f", [1, 1, 1]))
            kernel.launch(1, 32, N, A, memory, memory)
            memory.read(y)
    assert list(y) == [3, 3, 3]


def test_memory_is_ordered_for_libraries_that_use_it_in_place(kernel, libraries):
    result = array("f", [0] * 3)
    with libraries["torch"].using(0x55), kernel.upload(array("f", [10, 20, 30])) as memory:
        x = libraries["torch"].array(1)
        kernel.launch(1, 32, N, A, x, memory)
        theirs = libraries["interface"].array(0)
        theirs._address = memory.__cuda_array_interface__["data"][0]
        with libraries["interface"].using(memory.__cuda_array_interface__["stream"]):
            assert theirs.tolist() == [12, 22, 32]
            kernel.launch(1, 32, N, A, x, theirs)  # as another copy of the runtime does
        memory.read(result)
    assert list(result) == [14, 24, 34]


def test_a_copy_on_a_stream_follows_launches_on_the_default_one(kernel):
    result = array("f", [0] * 3)
    with kernel.upload(array("f", [10, 20, 30])) as memory:
        kernel.launch(1, 32, N, A, memory, memory)
        memory.read(result, stream=0x77)
    assert list(result) == [30, 60, 90]


def test_a_bound_launch_keeps_the_order_of_its_memory(kernel, libraries):
    result, library = array("f", [0] * 3), libraries["torch"]
    with kernel.upload(array("f", [1, 1, 1])) as memory:
        again = kernel.bind(1, 32, N, A, memory, memory)
        again()
        with library.using(0x55):
            kernel.launch(1, 32, N, A, library.array(1), memory)
        again()
        with library.using(0x66):
            y = library.array(0)
            kernel.launch(1, 32, N, A, memory, y)
            assert y.tolist() == [30, 30, 30]
        memory.read(result)
        again()
    assert list(result) == [15, 15, 15]
    with pytest.raises(ValueError, match="was freed"):
        again()


def test_two_threads_on_streams_of_their_own_are_both_waited_for(kernel, libraries, monkeypatch):
    """The second one begins and ends between a launch of the first and its note of that."""
    result, library = array("f", [0] * 3), libraries["torch"]
    with kernel.upload(array("f", [1, 1, 1])) as memory:
        noted, inside = type(memory).after, False

        def after(self: Any, context: Any, stream: int) -> None:
            nonlocal inside
            if not inside:
                inside = True
                with library.using(0x66):
                    kernel.launch(1, 32, N, A, library.array(1), memory)
            noted(self, context, stream)

        monkeypatch.setattr(type(memory), "after", after)
        with library.using(0x55):
            kernel.launch(1, 32, N, A, library.array(1), memory)
        memory.read(result)
    assert list(result) == [5, 5, 5]


def test_memory_that_another_device_reaches_keeps_its_order(kernel, libraries, monkeypatch):
    monkeypatch.setenv("STUB_PEERS", "1")
    result = array("f", [0] * 3)
    with kernel.upload(array("f", [10, 20, 30])) as memory:
        kernel.launch(1, 32, N, A, memory, memory)
        kernel.launch(1, 32, N, A, libraries["torch"].array(1, 1), memory)
        memory.read(result)
    assert list(result) == [32, 62, 92]


def test_with_a_stream_the_launch_is_there_after_the_work_of_its_arrays_library(kernel, libraries, stub):
    library = libraries["cupy"]
    with library.using(0x55):
        x, y = library.array(1), library.array(10)
        kernel.launch(1, 32, N, A, x, y, stream=0x66)
    assert ctypes.c_ulonglong.in_dll(ctypes.CDLL(stub), "stub_stream").value == 0x66
    with library.using(0x66):
        assert y.tolist() == [12, 12, 12]
        kernel.launch(1, 32, N, A, x, y, stream=0)
    with library.using(0):
        assert y.tolist() == [14, 14, 14]


def test_nothing_is_ordered_across_the_border_of_a_capture(kernel, libraries, stub):
    x, y = libraries["torch"].array(1), libraries["cupy"].array(10)
    ctypes.c_uint64.in_dll(ctypes.CDLL(stub), "stub_capturing").value = 0x55
    with libraries["torch"].using(0x55), kernel.memory(12) as memory:
        kernel.launch(1, 32, N, A, x, y)
        kernel.launch(1, 32, N, A, x, memory)
    assert counter(stub, "stub_waits") == 0


class TestDevices:
    def test_each_device_gets_its_module_once(self, kernel, libraries, stub):
        library = libraries["torch"]
        for device in (1, 0, 1, 0, 1):
            x, y = library.array(1, device), library.array(10, device)
            kernel.launch(1, 32, N, A, x, y)
            assert y.tolist() == [12, 12, 12]
        assert counter(stub, "stub_loads") == 2

    def test_memory_and_launches_without_arrays_go_to_the_current_device(self, kernel, libraries, stub):
        y = array("f", [10, 20, 30])
        with libraries["torch"].gpu.current(PRIMARY + 1):
            with kernel.upload(array("f", [1, 2, 3])) as x, kernel.upload(y) as memory:
                assert memory.place == 1
                kernel.launch(1, 32, N, A, x, memory)
                memory.read(y)
            address = libraries["torch"].gpu.allocate(PRIMARY, 12)
            pointer = ctypes.c_void_p(address)
            kernel.launch(1, 32, N, A, pointer, pointer)  # the driver knows that it is on device 0
            kernel.launch(1, 32, ctypes.c_ulonglong(0), A, ctypes.c_void_p(), ctypes.c_void_p())
        assert list(y) == [12, 24, 36]
        assert counter(stub, "stub_crossed") == counter(stub, "stub_faults") == 0

    def test_a_kernel_that_is_looked_up_on_another_device_is_loaded_there_first(
        self, kernels, libraries, stub
    ):
        with libraries["torch"].gpu.current(PRIMARY + 1):
            kernels.function("saxpy")
        assert counter(stub, "stub_loads") == 1

    def test_the_callers_context_is_left_as_it_was(self, kernel, libraries, stub):
        driver = ctypes.CDLL(stub)
        library = libraries["torch"]
        x, y = library.array(1, 1), library.array(10, 1)
        kernel.launch(1, 32, N, A, x, y)
        held = ctypes.c_void_p()
        driver.cuCtxGetCurrent(ctypes.byref(held))
        assert held.value is None, "not device 1, which other libraries would then use"
        x, y = library.array(1, 0), library.array(10, 0)
        kernel.launch(1, 32, N, A, x, y)
        driver.cuCtxGetCurrent(ctypes.byref(held))
        assert held.value == PRIMARY, "device 0, as with CUDA's runtime"
        driver.cuCtxPopCurrent_v2(ctypes.byref(held))

    def test_arrays_on_two_devices_are_refused(self, kernel, libraries):
        library = libraries["torch"]
        with pytest.raises(ValueError) as error:  # noqa: PT011  the whole message is compared
            kernel.launch(1, 32, N, A, library.array(1, 0), library.array(10, 1))
        assert str(error.value) == (
            "argument 2 is on device 0 and argument 3 on device 1, and neither can reach the other: copy one of them "
            "to the other's device"
        )
        with pytest.raises(ValueError, match=r"^argument 2 is on device 0 and argument 3 on device 1, and"):
            kernel.launch(1, 32, N, A, kernel.memory(12), library.array(10, 1))

    def test_arrays_on_two_devices_that_reach_each_other(self, kernel, libraries, monkeypatch):
        monkeypatch.setenv("STUB_PEERS", "1")
        with libraries["torch"].using(0x55), libraries["cupy"].using(0x66):
            for here, there in ((0, 1), (1, 0)):
                x, y = libraries["torch"].array(1, here), libraries["cupy"].array(10, there)
                kernel.launch(1, 32, N, A, x, y)
                assert y.tolist() == [12, 12, 12]

    @pytest.mark.parametrize(("first", "second"), [("torch", "dlpack"), ("dlpack", "dlpack")])
    def test_arrays_of_dlpack_on_another_device_are_refused_too(self, kernels, libraries, first, second):
        x, y = libraries[first].array(1, 0), libraries[second].array(10, 1)
        with pytest.raises(
            ValueError, match=r"^argument 2 is on device 0 and argument 3 on device 1, and neither"
        ):
            kernels.function("saxpy").launch(1, 32, N, A, x, y)
        with pytest.raises(
            ValueError, match=r"^argument \d is on device 1, and the kernel saxpy was looked up for"
        ):
            kernels.function("saxpy", device=0).launch(1, 32, N, A, y, y)

    @pytest.mark.parametrize("managed_first", [True, False])
    def test_managed_memory_can_be_used_on_every_device(self, kernel, libraries, managed_first):
        library = libraries["cupy"]
        with library.using(0x55):
            managed, y = library.array(1, 0, managed=True), library.array(10, 1)
            kernel.launch(1, 32, N, A, *((managed, y) if managed_first else (y, managed)))
            assert (y if managed_first else managed).tolist() == ([12] * 3 if managed_first else [21] * 3)

    def test_a_device_that_is_demanded_has_the_arrays(self, kernels, libraries):
        library = libraries["torch"]
        kernel = kernels.function("saxpy", device=1)
        x, y = library.array(1, 1), library.array(10, 1)
        kernel.launch(1, 32, N, A, x, y)
        assert y.tolist() == [12, 12, 12]
        with pytest.raises(ValueError) as error:  # noqa: PT011  the whole message is compared
            kernel.launch(1, 32, N, A, library.array(1, 0), y)
        assert str(error.value) == (
            "argument 2 is on device 0, and the kernel saxpy was looked up for device 1: look it up without `device` "
            "and `context` to launch it where its arrays are"
        )
        with pytest.raises(
            ValueError, match=r"^argument 2 is on device 1, and the kernel saxpy was looked up for context"
        ):
            kernels.function("saxpy", context=0x44).launch(1, 32, N, A, x, y)

    def test_an_array_of_a_context_of_its_own(self, kernel, libraries, stub):
        library = libraries["interface"]
        x, y = library.array(1), library.array(10)
        for one in (x, y):
            one._context = 0x44
            one._address = library.gpu.allocate(0x44, 12)
            library.gpu.driver.stub_fill(0x44, 0x55, one._address, 3, 1)
        with library.using(0x55):
            kernel.launch(1, 32, N, A, x, y)
            assert y.tolist() == [3, 3, 3]
        assert counter(stub, "stub_faults") == counter(stub, "stub_crossed") == 0

    def test_a_device_for_which_there_is_no_image(self, stub, tmp_path, libraries, monkeypatch):
        monkeypatch.setenv("STUB_CAPABILITY_1", "70")
        library, kernels = libraries["torch"], KernelSet(write_set(tmp_path / "s"), env={}, driver=stub)
        kernel = kernels.function("saxpy")
        x, y = library.array(1, 1), library.array(10, 1)
        with pytest.raises(
            KernelUnavailable, match=r"^cubin sm_75: runs on 7\.x from 7\.5; this device is 7\.0\n"
        ):
            kernel.launch(1, 32, N, A, x, y)
        x, y = library.array(1, 0), library.array(10, 0)
        kernel.launch(1, 32, N, A, x, y)
        assert y.tolist() == [12, 12, 12]

    def test_threads_on_two_devices_and_streams_of_their_own(self, kernels, libraries, stub):
        wrong: list[object] = []

        def work(seed: int) -> None:
            library = libraries["torch" if seed % 2 else "cupy"]
            kernel, device = kernels.function("saxpy"), seed // 2 % 2
            for step in range(20):
                with library.using(0x500 + 16 * seed + step % 3):
                    x, y = library.array(1, device), library.array(seed, device)
                    kernel.launch(1, 32, N, A, x, y)
                    found = y.tolist()
                wrong.extend([] if found == [seed + 2] * 3 else [(seed, found)])

        in_threads(work)
        assert wrong == []
        assert counter(stub, "stub_loads") == 2


class TestKinds:
    @pytest.mark.parametrize("name", ["torch", "cupy", "interface"])
    def test_elements_are_checked_also_after_a_right_launch(self, kernels, libraries, name, tmp_path, stub):
        folder = write_set(
            tmp_path / "typed", parameters=["unsigned long", "float", "const float *", "float *"]
        )
        kernel = KernelSet(folder, env={}, driver=stub).function("saxpy")
        library = libraries[name]
        x, y = library.array(1), library.array(10)
        kernel.launch(1, 32, N, A, x, y)
        kernel.launch(1, 32, N, A, x, y)
        with pytest.raises(
            TypeError, match=r"^argument 3: an array of float64 .* and the parameter is float \*"
        ):
            kernel.launch(1, 32, N, A, x, library.array(10, dtype="f8"))
        with pytest.raises(
            TypeError, match=r"^argument 0: -1 does not fit the parameter's type, unsigned long"
        ):
            kernel.launch(1, 32, numpy.int64(-1), A, x, y)

    def test_memory_is_no_number(self, stub, tmp_path):
        types = ["unsigned long", "float", "const float *", "float *"]
        kernel = KernelSet(write_set(tmp_path / "s", parameters=types), env={}, driver=stub).function("saxpy")
        with (
            kernel.memory(12) as memory,
            pytest.raises(TypeError, match=r"^argument 0: an array .* is given, and the"),
        ):
            kernel.launch(1, 32, memory, A, memory, memory)

    def test_host_memory_of_torch(self, kernel, libraries):
        x = libraries["torch"].array(1)
        x._device = -1
        with pytest.raises(TypeError, match=r"^Tensor is host memory, which no kernel can read"):
            kernel.launch(1, 32, N, A, x, x)

    def test_freed_memory_is_refused(self, kernel):
        with kernel.memory(12) as memory:
            again = kernel.bind(1, 32, N, A, memory, memory)
        for use in (
            lambda: kernel.launch(1, 32, N, A, memory, memory),
            again,
            lambda: memory.read(bytearray(12)),
            lambda: memory.write(bytes(12)),
            lambda: memory.__cuda_array_interface__,
        ):
            with pytest.raises(
                ValueError, match=r"^the memory was freed, by the end of its `with` statement or by `free`$"
            ):
                use()


class TestLaunches:
    def test_much_shared_memory(self, kernel, stub, monkeypatch):
        with kernel.upload(array("f", [1, 2, 3])) as x:
            kernel.launch(1, 32, N, A, x, x, shared=48 * 1024)
            assert counter(stub, "stub_dynamic") == 0
            kernel.launch(1, 32, N, A, x, x, shared=100_000)
            assert counter(stub, "stub_dynamic") == 232_448
            with pytest.raises(
                ValueError,
                match=r"^shared 300000: a block of saxpy can have at most 232448 bytes on GPU 0, Stub 0$",
            ):
                kernel.launch(1, 32, N, A, x, x, shared=300_000)

    def test_cooperative_launches_and_clusters(self, kernel, stub):
        with kernel.upload(array("f", [1, 2, 3])) as x:
            kernel.launch(2, 32, N, A, x, x, cooperative=True, cluster=2)
            assert (counter(stub, "stub_cooperative"), counter(stub, "stub_cluster")) == (1, 2)
            kernel.launch(2, 32, N, A, x, x)
            assert (counter(stub, "stub_cooperative"), counter(stub, "stub_cluster")) == (0, 0)
            kernel.bind(2, 32, N, A, x, x, cooperative=True)()
            assert counter(stub, "stub_cooperative") == 1

    def test_a_limit_that_is_broken_is_named(self, kernel, monkeypatch):
        with kernel.upload(array("f", [1, 2, 3])) as x:
            with pytest.raises(
                DriverError, match=r"block x is 4096, and GPU 0, Stub 0, allows 1024"
            ) as error:
                kernel.launch(1, 4096, N, A, x, x)
            assert error.value.kernel == "saxpy"
            with pytest.raises(
                DriverError, match=r"a block has 2048 threads, and GPU 0, Stub 0, allows 1024"
            ):
                kernel.launch(1, (1024, 2), N, A, x, x)
            monkeypatch.setenv("STUB_KERNEL_THREADS", "512")
            with pytest.raises(
                DriverError,
                match=r"a block has 1024 threads, and saxpy, with 32 registers for each, allows 512",
            ):
                kernel.launch(1, (512, 2), N, A, x, x)

    def test_variables_of_a_module(self, kernel, libraries):
        found = array("f", [0] * 4)
        variable = kernel.variable("coefficients")
        variable.write(array("f", [1, 2, 3, 4]))
        kernel.variable("coefficients").read(found)
        assert list(found) == [1, 2, 3, 4]
        with libraries["torch"].gpu.current(PRIMARY + 1):
            kernel.variable("coefficients").read(found)
        assert list(found) == [0, 0, 0, 0], "each device has its own"
        with libraries["torch"].using(0x55):  # a launch does not say that its kernel writes the variable
            y = ctypes.c_void_p(variable.address)
            kernel.launch(1, 32, N, A, libraries["torch"].array(1), y)
        variable.read(found)
        assert list(found) == [3, 4, 5, 4]
        with pytest.raises(DriverError, match="CUDA_ERROR_NOT_FOUND"):
            kernel.variable("nothing")

    def test_the_handle_is_that_of_the_current_device(self, kernel, libraries):
        assert kernel.handle >> 8 == PRIMARY
        with libraries["torch"].gpu.current(PRIMARY + 1):
            assert kernel.handle >> 8 == PRIMARY + 1

    def test_a_fault_shows_at_once_when_launches_block(self, stub, tmp_path, libraries):
        env = {"GPUFORGE_LAUNCH_BLOCKING": "1"}
        kernel = KernelSet(write_set(tmp_path / "s"), env=env, driver=stub).function("saxpy")
        y = libraries["torch"].array(1)
        y._address = 64  # nobody's
        with pytest.raises(DriverError) as error:
            kernel.launch(1, 32, N, A, y, y)
        assert (error.value.code, error.value.kernel) == (700, "saxpy")
        assert "kernel saxpy" in str(error.value)


def test_two_copies_of_the_runtime_share_the_driver_and_the_errors(stub, tmp_path):
    import importlib.util
    import sys

    import gpuforge.runtime as one

    home = Path(one.__file__).parent
    spec = importlib.util.spec_from_file_location(
        "another_runtime", home / "__init__.py", submodule_search_locations=[str(home)]
    )
    assert spec is not None
    assert spec.loader is not None
    other: Any = importlib.util.module_from_spec(spec)
    sys.modules["another_runtime"] = other
    try:
        spec.loader.exec_module(other)
        assert other.KernelSet is not one.KernelSet
        for error in ("KernelUnavailable", "DriverError", "UnknownKernel"):
            assert getattr(other, error) is getattr(one, error)
        folder = write_set(tmp_path / "s")
        first, second = (
            each.KernelSet(folder, env={}, driver=stub).function("saxpy") for each in (one, other)
        )
        with first.upload(array("f", [1, 2, 3])) as x:
            first.launch(1, 32, N, A, x, x)
        y = array("f", [1, 1, 1])
        with second.upload(y) as memory:
            second.launch(1, 32, N, A, memory, memory)
            memory.read(y)
        assert list(y) == [3, 3, 3]
        assert ctypes.c_int.in_dll(ctypes.CDLL(stub), "stub_starts").value == 1
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "another_runtime"]:
            del sys.modules[name]
