"""Kernel sets with modules of IREE's: which device runs them and why, what a launch checks, and what failures say."""

import ctypes
import hashlib
import importlib.metadata
import json
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import iree_stub
import numpy as np
import pytest

from gpuforge.runtime import DriverError, KernelSet, KernelUnavailable, UnknownKernel
from gpuforge.runtime.backends.iree.kernel import Parameter, parameters_of
from gpuforge.runtime.explain import as_text, facts_of, machine_data
from gpuforge.runtime.signature import host_array
from gpuforge.runtime.values import Refused

NO_CUDA = RuntimeError(
    "Error creating driver: c/runtime/src/iree/hal/drivers/cuda/cuda_dynamic_symbols.c:66: UNAVAILABLE; CUDA driver "
    "library 'libcuda.so' not available"
)
IMAGES: tuple[tuple[str, str, str], ...] = (
    ("iree-cuda", "compute_80", "7.6"),
    ("iree-vulkan", "", ""),
    ("iree-cpu", "x86-64", ""),
)
Made = Callable[..., KernelSet]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Put a stand-in for `iree.runtime` in place."""
    return partial(iree_stub.install, monkeypatch)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Lay out a set with a module for each back end of IREE's."""

    def make(images: Any = IMAGES, **options: Any) -> KernelSet:
        return iree_stub.kernel_set(tmp_path, images, **options)

    return make


def test_a_driver_that_is_missing_hides_no_other_device(made, use):
    use(cuda=NO_CUDA, vulkan=["Radeon"], local_task=["default"])
    kernels = made()
    assert as_text(facts_of(kernels)) == (
        "kernel set ops: made by iree 3.13.0\n"
        "  GPU: no NVIDIA driver (libnothing.so: cannot open shared object file: No such file or directory)\n"
        "  IREE cuda: IREE's driver cuda does not start (CUDA driver library 'libcuda.so' not available); IREE opens "
        "libcuda.so: where there is libcuda.so.1 alone, make a link of that name\n"
        "  IREE vulkan: Radeon\n"
        "  IREE local-task: default\n"
        "  module saxpy, from kernels/saxpy.mlir\n"
        "    used     IREE vulkan           IREE's driver vulkan runs it on Radeon\n"
        "    fits     IREE CPU x86-64       IREE's driver local-task runs it on default\n"
        "    fits     CPU                   the package's own code; this set has no library for the CPU\n"
        "    refused  IREE cuda compute_80  no usable NVIDIA GPU"
    )
    assert [*machine_data(kernels.probe())["iree"]] == ["cuda", "vulkan", "local-task"]
    assert kernels.function("saxpy").backend == "iree"


def test_a_gpu_comes_first_and_a_vulkan_device_that_is_the_cpu_last(made, use, stub):
    use(cuda=["H200"], vulkan=["llvmpipe (LLVM 15.0.6)"], local_task=["default"])
    used = [
        (c.image.kind if c.image else "", c.reason.kind) for c in made(driver=stub).candidates() if c.accepted
    ]
    assert used == [
        ("iree-cuda", "iree"),
        ("iree-cpu", "iree"),
        ("iree-vulkan", "iree-software"),
        ("", "own-code"),
    ]


@pytest.mark.parametrize(
    ("arch", "isa", "kind"),
    [
        ("compute_100", "8.6", "newer"),
        ("compute_80", "99.0", "driver-older-than-ptx"),
        ("compute_90", "7.8", "iree"),
    ],
)
def test_a_module_for_cuda_is_judged_as_its_ptx(made, use, stub, arch, isa, kind):
    use(cuda=["H200"])
    (found, *_) = [
        c for c in made([("iree-cuda", arch, isa)], driver=stub).candidates() if c.image is not None
    ]
    assert found.reason.kind == kind


@pytest.mark.parametrize("level", ["x86-64-v4", "x86-64-v9"])
def test_a_module_for_another_cpu_is_refused(made, use, level, monkeypatch):
    from gpuforge.runtime import cpu

    use(local_task=["default"])
    monkeypatch.setattr(cpu, "this_cpu", lambda: cpu.Cpu("x86_64", frozenset({"sse4_2"})))
    (found, *_) = [c for c in made([("iree-cpu", level, "")]).candidates() if c.image is not None]
    assert found.reason.kind in {"cpu-lacks", "other-machine"}


def test_the_environment_decides_which_drivers_are_opened(made, use):
    stub = use(cuda=NO_CUDA, vulkan=["Radeon"], local_task=["default"])
    assert made(GPUFORGE_DISABLE_GPU="1").function("saxpy").driver == "local-task"  # type: ignore[union-attr]
    assert made(GPUFORGE_IREE="local-task").function("saxpy").driver == "local-task"  # type: ignore[union-attr]
    assert stub.opened == ["local-task"]
    with pytest.raises(KernelUnavailable) as caught:
        made(GPUFORGE_IREE="0").function("saxpy")
    assert stub.opened == ["local-task"]
    assert caught.value.reasons[1:] == (
        "IREE vulkan: switched off (GPUFORGE_IREE=0)",
        "IREE CPU x86-64: switched off (GPUFORGE_IREE=0)",
    )


def test_without_the_runtime_of_iree_the_reason_says_how_to_get_it(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "iree", None)
    with pytest.raises(
        KernelUnavailable,
        match=r"IREE CPU x86-64: no iree\.runtime: pip install iree-base-runtime",
    ):
        made().function("saxpy")


@pytest.mark.parametrize("found", ["3.12.0", "3.14.0rc20261101", "4.13.0", "20240828.999"])
def test_a_runtime_of_another_release_is_named_and_not_loaded(made, use, monkeypatch, found):
    monkeypatch.setattr(importlib.metadata, "version", {"iree-base-runtime": found}.__getitem__)
    stub = use(local_task=["default"])
    with pytest.raises(KernelUnavailable) as caught:
        made([("iree-cpu", "x86-64", "")]).function("saxpy")
    assert caught.value.reasons[1:] == (
        f"IREE CPU x86-64: iree-base-runtime {found} is installed, and IREE 3.13.0 compiled the module, which needs "
        "the runtime of the same release: pip install iree-base-runtime",
    )
    assert stub.opened == []


@pytest.mark.parametrize("found", ["3.13.0", "3.13.7rc20261101"])
def test_a_runtime_of_the_same_release_is_used(made, use, monkeypatch, found):
    monkeypatch.setattr(importlib.metadata, "version", {"iree-base-runtime": found}.__getitem__)
    use(local_task=["default"])
    assert made([("iree-cpu", "x86-64", "")]).function("saxpy").backend == "iree"


def test_a_driver_that_hangs_does_not_hang_the_program(made, use, monkeypatch):
    stub, wake = use(vulkan=["Radeon"]), threading.Event()
    monkeypatch.setattr(stub, "get_driver", lambda name: wake.wait(20))
    found = made([("iree-vulkan", "", "")], GPUFORGE_DRIVER_TIMEOUT="0.05").candidates()
    wake.set()
    assert found[-1].reason.kind == "no-answer"


def test_a_failure_is_not_remembered(made, use):
    use(local_task=NO_CUDA)
    kernels = made([("iree-cpu", "x86-64", "")])
    with pytest.raises(KernelUnavailable):
        kernels.function("saxpy")
    use(local_task=["default"])
    assert kernels.function("saxpy").backend == "iree"


def test_what_a_parent_opened_is_not_used_in_a_fork(made, use, monkeypatch):
    use(local_task=["default"])
    kernels = made([("iree-cpu", "x86-64", "")])
    saxpy, x = kernels.function("saxpy"), np.ones(2, "f4")
    memory = saxpy.upload(x)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert kernels.candidates()[-1].reason.kind == "forked"
    for call in (
        lambda: saxpy.launch(1, 1, np.float32(2), x, x.copy()),
        lambda: memory.read(x),
        lambda: saxpy.memory(8),
    ):
        with pytest.raises(DriverError, match="start workers with 'spawn'"):
            call()


@pytest.fixture
def kernel(made: Made, use: Any) -> Any:
    use(local_task=["default"])
    functions = {"saxpy": iree_stub.SAXPY, "failing": iree_stub.SAXPY.replace("saxpy", "failing")}
    return made([("iree-cpu", "x86-64", "")], functions=functions).function


def test_a_function_is_launched_as_kernels_are(kernel):
    saxpy = kernel("saxpy")
    x, y = np.arange(1000, dtype="f4"), np.ones(1000, "f4")
    saxpy.launch(4, 256, np.float32(2), x, y)
    assert (y == 2 * x + 1).all()
    assert (x == np.arange(1000)).all()
    with saxpy.upload(x) as first, saxpy.upload(y) as second:
        again = saxpy.bind(4, 256, ctypes.c_float(1), first, second)
        again()
        again()
        second.read(y)
    assert (y == 4 * x + 1).all()
    assert kernel("saxpy") is saxpy


WRONG: Any = [
    (
        (2.0, "x", "y"),
        "argument 0: a Python float has no C type: write ctypes.c_float(2.0), numpy.float32(2.0)",
    ),
    ((np.float64(2), "x", "y"), "argument 0: numpy.float64 cannot be passed as f32"),
    ((ctypes.c_int(2), "x", "y"), "argument 0: ctypes.c_int cannot be passed as f32"),
    (
        ("x", "x", "y"),
        "argument 0: a str is not an array",
    ),
    (
        (np.float32(2), np.zeros(4, "f8"), "y"),
        "argument 1: ndarray of float64 with shape (4,) cannot be passed as tensor<?xf32>",
    ),
    (
        (np.float32(2), np.zeros((2, 2), "f4"), "y"),
        "argument 1: an array of 2x2 cannot be passed as tensor<?xf32>",
    ),
    ((np.float32(2), np.zeros(8, "f4")[::2], "y"), "argument 1: a contiguous array is expected"),
    ((np.float32(2), b"1234", "y"), "argument 1: bytes cannot be passed as tensor<?xf32>"),
    (
        (np.float32(2), np.ones(4, ">f4"), "y"),
        "argument 1: an array of >f4 is not in the byte order of this machine",
    ),
    ((np.float32(2), np.array([None]), "y"), "argument 1: an array of object has Python objects"),
    ((np.float32(2), [1.0], "y"), "argument 1: a list is not an array"),
    ((ctypes.c_char(b"a"), "x", "y"), "argument 0: ctypes.c_char cannot be passed as f32"),
    ((None, "x", "y"), "argument 0: None has no C type"),
    ((np.datetime64(1, "s"), "x", "y"), "argument 0: numpy.datetime64 is not a type that a kernel can have"),
    ((np.float32(2),), "the kernel has 3 parameters, and 1 arguments are given"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_what_a_function_does_not_take_is_named_before_it_runs(kernel, arguments, message):
    arrays = {"x": np.zeros(4, "f4"), "y": np.zeros(4, "f4")}
    given = [arrays[a] if isinstance(a, str) and n else a for n, a in enumerate(arguments)]
    with pytest.raises(TypeError) as caught:
        kernel("saxpy").launch(1, 1, *given)
    assert str(caught.value).startswith(message)


def test_memory_must_give_the_sizes_of_the_tensor(kernel):
    saxpy = kernel("saxpy")
    with pytest.raises(TypeError, match=r"^argument 1: 6 bytes do not give the sizes of tensor<\?xf32>$"):
        saxpy.launch(1, 1, np.float32(2), saxpy.memory(6), saxpy.memory(8))
    with pytest.raises(ValueError, match=r"^bytearray has 4 bytes, and the memory 8$"):
        saxpy.upload(bytes(8)).read(bytearray(4))
    memory = saxpy.memory(8)
    memory.free()
    for call in (
        lambda: saxpy.launch(1, 1, np.float32(2), memory, saxpy.memory(8)),
        lambda: memory.read(bytearray(8)),
        lambda: memory.write(bytes(8)),
    ):
        with pytest.raises(ValueError, match=r"the memory was freed"):
            call()
    with saxpy.memory(0) as empty:
        empty.write(b"")
        empty.read(bytearray())


def test_what_the_function_writes_must_be_writable(kernel):
    y = np.zeros(4, "f4")
    y.flags.writeable = False
    with pytest.raises(ValueError, match=r"^argument 2: the function writes into it, and it is read-only$"):
        kernel("saxpy").launch(1, 1, np.float32(2), np.zeros(4, "f4"), y)


def test_a_failure_has_its_status_and_its_place(kernel):
    with pytest.raises(DriverError) as caught:
        kernel("failing").launch(1, 1, np.float32(2), np.zeros(4, "f4"), np.zeros(4, "f4"))
    assert str(caught.value) == (
        "running a function with IREE's local-task failed: ABORTED (10): the device is gone\n"
        "kernel failing, on default\n"
        "What to do: look the kernel up again: the device was lost, or an earlier kernel has failed"
    )
    assert (caught.value.code, caught.value.kernel, caught.value.device) == (10, "failing", "default")
    with pytest.raises(
        DriverError, match="allocating with IREE's local-task failed: RESOURCE_EXHAUSTED"
    ) as full:
        kernel("saxpy").memory(1 << 50)
    assert (full.value.code, full.value.kernel) == (8, "")
    assert full.value.advice == "free arrays on the device, or compute in parts"


def test_a_module_that_is_damaged_or_lacks_the_function_leads_to_the_next_candidate(made, use):
    use(local_task=["default"], vulkan=["Radeon"])
    kernels = made(IMAGES[1:])
    damaged = Path(kernels._folder, "saxpy-iree-vulkan.vmfb")
    damaged.write_bytes(b"cut")
    assert kernels.function("saxpy").driver == "local-task"  # type: ignore[union-attr]
    assert "is damaged, install the wheel again" in kernels.explain()
    with pytest.raises(UnknownKernel, match="has no kernel other: the module has saxpy"):
        kernels.function("other")


def test_a_module_that_iree_refuses_says_why(made, use):
    use(local_task=["default"])
    kernels = made([("iree-cpu", "x86-64", "")], functions="not a module")
    index = Path(kernels._folder, "index.json")
    file = Path(kernels._folder, "saxpy-iree-cpu.vmfb")
    file.write_bytes(b"cut")
    index.write_text(
        index.read_text().replace(
            json.loads(index.read_text())["modules"][0]["sha256"], hashlib.sha256(b"cut").hexdigest()
        )
    )
    with pytest.raises(
        KernelUnavailable, match=r"INVALID_ARGUMENT \(3\): FlatBuffer length prefix out of bounds"
    ):
        kernels.function("saxpy")


def test_a_context_of_the_callers_own_is_refused(made, use, stub):
    use(cuda=["H200"])
    with pytest.raises(
        KernelUnavailable, match="IREE uses the primary context of a device, and another one is given"
    ):
        made(IMAGES[:1], driver=stub).function("saxpy", context=0x33)


def test_a_declaration_is_read():
    text = (
        "sync func @f(%input0: f64, %input1: tensor<?x4xi64> {iree.abi.output = 1 : index}, %input2: tensor<bf16>, "
        "%input3: tensor<2xf16> {iree.abi.output = 0 : index}) -> (%output0: tensor<2xf16>, %output1: tensor<?x4xi64>)"
    )
    found = parameters_of("f", text)
    assert found == (
        Parameter("f64", None),
        Parameter("i64", (None, 4), 1),
        Parameter("bf16", ()),
        Parameter("f16", (2,), 0),
    )
    assert [str(p) for p in found] == ["f64", "tensor<?x4xi64>", "tensor<bf16>", "tensor<2xf16>"]
    assert found[1].sizes_of(96) == (3, 4)
    assert found[1].sizes_of(95) is None
    assert found[2].sizes_of(2) == ()
    assert found[3].sizes_of(2) is None
    assert Parameter("f32", (None, None)).sizes_of(4) is None
    assert Parameter("f32", (None, 0)).sizes_of(0) is None
    assert [found[1].takes(s) for s in ((5, 4), (5, 5), (4,))] == [True, False, False]
    assert parameters_of("g", "sync func @g() -> ()") == ()


@pytest.mark.parametrize(
    ("declaration", "problem"),
    [
        ("", "it has no declaration of a synchronous function"),
        ("async func @f(%input0: f32) -> ()", "it has no declaration of a synchronous function"),
        ("sync func @g(%input0: f32) -> ()", "it has no declaration of a synchronous function"),
        (
            "sync func @f(" + "%input0: f32, " * 1000 + ") -> ()",
            "it has no declaration of a synchronous function",
        ),
        (
            "sync func @f(%input0: !hal.buffer) -> ()",
            "%input0: !hal.buffer is neither a tensor nor a number",
        ),
        (
            "sync func @f(%input0: tensor<2xcomplex<f32>>) -> ()",
            "%input0: tensor<2xcomplex<f32>> is neither a tensor",
        ),
        (
            "sync func @f(%input0: f32) -> (%output0: tensor<2xf32>)",
            "its result 0, tensor<2xf32>, is written into no argument: give the argument {iree.abi.output = 0 : index}",
        ),
    ],
)
def test_a_function_that_is_no_kernel_is_refused(declaration, problem):
    with pytest.raises(Refused) as caught:
        parameters_of("f", declaration)
    assert str(caught.value).startswith(f"f cannot be launched: {problem}")


def test_numbers_without_a_sign_are_passed_as_the_virtual_machine_has_them():
    from gpuforge.runtime.backends.iree.kernel import _number

    assert _number(0, Parameter("i32", None), ctypes.c_uint(2**32 - 1)) == -1
    assert _number(0, Parameter("i64", None), np.uint64(2**64 - 1)) == -1
    assert _number(0, Parameter("i64", None), np.int64(-5)) == -5
    assert _number(0, Parameter("i1", None), np.bool_(1)) == 1


def test_two_arrays_that_are_written_do_not_overlap():
    from gpuforge.runtime.backends.iree.kernel import _refuse_overlap

    whole = np.zeros(8, "f4")
    first, second, longer = (host_array(part) for part in (whole[:4], whole[4:], whole[:5]))
    assert first
    assert second
    assert longer
    _refuse_overlap([first, second])
    with pytest.raises(ValueError, match="overlap"):
        _refuse_overlap([longer, second])
