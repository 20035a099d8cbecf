"""What every back end of the runtime has to hold, whichever runs a kernel: one suite over all of them.

OpenCL (PoCL) and the CPU are real; a driver and an IREE runtime made here stand in for NVIDIA's and for IREE's. On
machines with a GPU, tests/gpu runs the real ones.
"""

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import iree_stub
import numpy as np
import pytest
from runtime_samples import write_set
from set_samples import OPENCL_C, install_set
from thread_samples import COUNT, in_threads

from gpuforge.runtime import DriverError, KernelSet, KernelUnavailable, UnknownKernel
from gpuforge.runtime.unload import Limited, unload


@pytest.fixture(
    params=["cuda", "cpu", "iree", pytest.param("opencl", marks=pytest.mark.thorough)]  # PoCL compiles
)
def kernels(
    request: pytest.FixtureRequest, tmp_path: Path, stub: str, monkeypatch: pytest.MonkeyPatch
) -> KernelSet:
    """Return a set whose kernel `saxpy` is run by one back end."""
    home = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "kernels")}
    match request.param:
        case "cuda":
            return KernelSet(write_set(tmp_path / "default-kernels"), package="demo", env=home, driver=stub)
        case "opencl":
            request.getfixturevalue("pocl")
            made = install_set(tmp_path / "packages", OPENCL_C, cpu=False)
            return KernelSet(made / "kernels" / "ops", package="demo", env=home, driver="libnothing.so")
        case "cpu":
            made = install_set(tmp_path / "packages")
            off = {**home, "GPUFORGE_OPENCL": "0"}
            return KernelSet(made / "kernels" / "ops", package="demo", env=off, driver="libnothing.so")
        case _:
            iree_stub.install(monkeypatch, local_task=["default"])
            return iree_stub.kernel_set(tmp_path, [("iree-cpu", "x86-64", "")], **home)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["kernels"])


@pytest.mark.thorough
def test_a_kernel_says_what_runs_it_and_is_loaded_once(kernels, backend):
    kernel = kernels.function("saxpy")
    assert (kernel.backend, kernel.name) == (backend, "saxpy")
    assert kernels.function("saxpy") is kernel
    assert any(line.strip().startswith("used") for line in kernels.explain().splitlines())


def test_memory_is_copied_and_given_back(kernels):
    kernel = kernels.function("saxpy")
    numbers = np.arange(6, dtype="f4")
    with kernel.upload(numbers) as memory:
        assert memory.size == 24
        back = np.zeros(6, "f4")
        memory.read(back)
        assert (back == numbers).all()
        memory.write(2 * numbers)
        memory.read(back)
        assert (back == 2 * numbers).all()
    memory.free()  # more than once is harmless
    with kernel.memory(0) as empty:
        empty.write(b"")
        empty.read(bytearray())


@pytest.mark.thorough
@pytest.mark.parametrize("copy", [lambda m: m.read(bytearray(4)), lambda m: m.write(bytes(4))])
def test_a_buffer_of_another_size_is_refused(kernels, copy):
    memory = kernels.function("saxpy").memory(8)
    with pytest.raises(ValueError, match=r"^(bytes|bytearray) has 4 bytes, and the memory 8$"):
        copy(memory)


def test_a_number_without_a_type_is_named(kernels):
    kernel = kernels.function("saxpy")
    with pytest.raises(
        TypeError,
        match=r"^argument 0: a Python float has no C type: write (ctypes\.c_float|numpy\.uint64)\(2\.0\)",
    ):
        kernel.launch(1, 1, 2.0, np.float32(1), kernel.memory(4))


WRONG_SIZES: Any = [
    ({"grid": 0}, ValueError),
    ({"grid": -1}, ValueError),
    ({"block": (32, 0)}, ValueError),
    ({"grid": 1 << 40}, ValueError),
    ({"grid": 1.0}, TypeError),
    ({"block": True}, TypeError),
    ({"block": ()}, TypeError),
    ({"grid": (1, 1, 1, 1)}, TypeError),
    ({"grid": None}, TypeError),
    ({"shared": -1}, ValueError),
    ({"shared": 0.5}, TypeError),
    ({"stream": "mine"}, TypeError),
]


@pytest.mark.thorough
def test_a_launch_of_a_wrong_size_is_refused(kernels, backend):
    kernel = kernels.function("saxpy")
    with kernel.memory(4) as memory:
        arguments = [np.uint64(1), np.float32(1), memory, *([memory] if backend == "cuda" else [])]
        for options, error in WRONG_SIZES:
            sizes = {"grid": 1, "block": 1, **options}
            with pytest.raises(error):
                kernel.launch(sizes.pop("grid"), sizes.pop("block"), *arguments, **sizes)


@pytest.mark.thorough
def test_only_one_block_of_numbers_is_copied(kernels):
    kernel = kernels.function("saxpy")
    with kernel.memory(16) as memory:
        for wrong, error in (
            (np.ones((2, 2), "f4", order="F"), ValueError),
            (np.ones(8, "f4")[::2], ValueError),
            (np.ones(4, ">f4"), TypeError),
            (np.array([1, None]), TypeError),
            (np.zeros(2, "M8[s]"), TypeError),
            ([1.0], TypeError),
            (None, TypeError),
        ):
            for copy in (kernel.upload, memory.write, memory.read):
                with pytest.raises(error):
                    copy(wrong)
        with pytest.raises(ValueError, match="is read-only"):
            memory.read(bytes(16))


@pytest.mark.thorough
def test_freed_memory_is_refused(kernels):
    memory = kernels.function("saxpy").memory(4)
    memory.free()
    for copy in (memory.read, memory.write):
        with pytest.raises(ValueError, match="the memory was freed"):
            copy(bytearray(4))


def test_the_switch_for_gpus_leaves_the_cpu(kernels, backend):
    off = KernelSet(
        kernels._folder,
        package="demo",
        env={**kernels.env, "GPUFORGE_DISABLE_GPU": "1"},
        driver=kernels._driver,
    )
    if backend in {"cpu", "iree"}:
        assert off.function("saxpy").backend == backend
    else:
        with pytest.raises(KernelUnavailable, match="switched off"):
            off.function("saxpy")


def test_a_kernel_that_is_not_there_says_nothing_about_the_others(kernels):
    before = kernels.explain()
    with pytest.raises(UnknownKernel):
        kernels.function("nothing")
    assert kernels.explain() == before
    kernels.function("saxpy")
    with pytest.raises(UnknownKernel):
        kernels.function("nothing")
    assert kernels.explain() == before


def test_what_was_uploaded_keeps_its_type(kernels, backend):
    """Memory of raw bytes fits any pointer, a copy of other numbers none."""
    kernel = kernels.function("saxpy")
    if backend == "cuda":  # the stand-in's kernel has no types
        return
    for wrong in ("f2", "i4", "f8"):
        with kernel.upload(np.zeros(4, wrong)) as memory, pytest.raises(TypeError, match=r"argument [12]: "):
            kernel.launch(1, 1, *saxpy_arguments(backend, memory))
    for right in (np.zeros(4, "f4"), bytes(16)):
        with kernel.upload(right) as memory:
            kernel.launch(1, 1, *saxpy_arguments(backend, memory))


def saxpy_arguments(backend: str, memory: Any) -> list[Any]:
    if backend == "iree":
        return [np.float32(1), memory, memory]
    return [np.uint64(1), np.float32(1), memory, *([memory] if backend == "cuda" else [])]


def test_a_released_kernel_is_loaded_again_and_one_in_use_still_runs(kernels, backend):
    held = kernels.function("saxpy")
    for _ in range(2):
        kernels.release()
        with held.memory(4) as memory:
            held.launch(1, 1, *saxpy_arguments(backend, memory))
    again = kernels.function("saxpy")
    assert again is not held
    assert kernels.function("saxpy") is again
    with again.memory(4) as memory:
        again.launch(1, 1, *saxpy_arguments(backend, memory))


def limit(kernels: KernelSet, kernel: Any) -> None:
    limited = Limited(kernels, most=1)
    assert limited.function("saxpy") is kernel
    assert limited.function("saxpy") is kernel
    assert limited.function("saxpy", device=0) is not kernel  # an object of its own
    assert kernels.function("saxpy") is not kernel
    kernels.release()


@pytest.mark.parametrize("drop", [lambda kernels, kernel: kernels.release(), unload, limit])
def test_what_is_released_or_unloaded_goes_if_it_is_not_in_use(kernels, backend, drop):
    """What a back end has loaded goes with its last kernel; a library for the CPU stays loaded."""
    kernel: Any = kernels.function("saxpy")
    loaded: Callable[[], int]
    if backend == "cuda":
        loaded = partial(len, kernel.loaded.context._modules)
    elif backend == "opencl":
        context = kernel._context
        loaded = lambda: len(context._programs)  # noqa: E731
    elif backend == "iree":
        device = kernel._iree_device
        loaded = lambda: len(device._modules)  # noqa: E731
    else:
        loaded = lambda: 1  # noqa: E731
    assert loaded() == 1
    drop(kernels, kernel)
    assert loaded() == (backend == "cpu")
    again = kernels.function("saxpy")
    assert again is not kernel
    assert loaded() == 1
    for each in (kernel, again):
        with each.memory(4) as memory:
            each.launch(1, 1, *saxpy_arguments(backend, memory))


def test_a_device_that_is_not_there_is_refused_and_named(kernels, backend):
    first = kernels.function("saxpy", device=0)
    assert first.device == kernels.function("saxpy").device
    for number in (1, 99):
        with pytest.raises(KernelUnavailable, match=f"device {number}"):
            kernels.function("saxpy", device=number)


def test_a_context_of_another_back_end_is_refused(kernels, backend):
    """Nothing else is used in place of what was requested."""
    of_pyopencl = type("Context", (), {"__module__": "pyopencl", "int_ptr": 5})()
    others: list[Any] = [
        *([0x44, "current"] if backend != "cuda" else []),
        *([of_pyopencl] if backend != "opencl" else []),
    ]
    for context in others:
        with pytest.raises(KernelUnavailable) as caught:
            kernels.function("saxpy", context=context)
        of = "pyopencl" if context is of_pyopencl else "CUDA"
        assert f"does not run in a context of {of}, as requested" in str(caught.value)
    assert kernels.function("saxpy").backend == backend


def test_threads_share_a_kernel(kernels, backend):
    found: list[Any] = []

    def work(seed: int) -> None:
        kernel = kernels.function("saxpy")
        numbers, back = np.full(64, seed, "f4"), np.zeros(64, "f4")
        with kernel.upload(numbers) as memory:
            memory.read(back)
            kernel.launch(1, 1, *saxpy_arguments(backend, memory))
        found.append((back == numbers).all())

    in_threads(work)
    assert found == [True] * COUNT


def test_a_stream_of_the_back_end_is_taken(kernels, backend):
    kernel: Any = kernels.function("saxpy")
    stream: Any = 0
    if backend == "opencl":
        import pyopencl

        stream = pyopencl.CommandQueue(kernel._context.context)
    with kernel.memory(4) as memory:
        kernel.launch(1, 1, *saxpy_arguments(backend, memory), stream=stream)
        memory.write(bytes(4), stream=stream)
        result = bytearray(b"full")
        memory.read(result, stream=stream)
    assert result == bytes(4)


def test_what_does_not_fit_the_device_is_an_error_with_a_status_and_advice(kernels, backend):
    kernel = kernels.function("saxpy")
    with kernel.memory(4) as memory:
        kernel.launch(1, 1, *saxpy_arguments(backend, memory))
    if backend == "cpu":
        with pytest.raises(MemoryError, match="bytes are more than there are"):
            kernel.memory(1 << 60)
        return
    with pytest.raises(DriverError) as caught:
        kernel.memory(1 << 60)
    assert caught.value.code
    assert caught.value.name.isupper()
    assert caught.value.advice
    assert not caught.value.kernel  # it is not the fault of the last one


def own_context(kernels: KernelSet, backend: str) -> Any:
    """Return a context of the caller's; None for a back end without them."""
    kernel: Any = kernels.function("saxpy")
    if backend == "opencl":
        import pyopencl

        return pyopencl.Context([kernel._context.device])
    return ctypes.c_void_p(kernel.loaded.context.handle) if backend == "cuda" else None


def test_kernels_in_a_context_of_the_callers_are_found_again_until_it_is_released(kernels, backend):
    context = own_context(kernels, backend)
    if context is None:
        return
    plain = kernels.function("saxpy")
    kernel: Any = kernels.function("saxpy", context=context)
    with kernel.memory(4) as memory:
        kernel.launch(1, 1, *saxpy_arguments(backend, memory))
    if backend == "opencl":
        assert kernels.function("saxpy", context=context) is kernel
        assert kernel._context.context is context
        assert kernel is not plain
        kernels.release(context=context)
        kernels.release(context=context)
        assert kernels.function("saxpy", context=context) is not kernel
    with plain.memory(4) as memory:
        plain.launch(1, 1, *saxpy_arguments(backend, memory))
