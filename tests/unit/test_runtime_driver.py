"""The runtime against a driver: a small C library, made here, stands in for libcuda."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path

import golden
import pytest
from runtime_samples import counter, write_set

from gpuforge.runtime import (
    Device,
    DriverError,
    Kernel,
    KernelSet,
    KernelUnavailable,
    Probe,
    Reason,
    UnknownKernel,
    probe,
)
from gpuforge.runtime.driver import DRIVER, Attempt, Driver, NoDriver, open_driver, patience
from gpuforge.runtime.signature import Owned


def matches(name: str, text: str) -> None:
    golden.hold(f"runtime/{name}", text + "\n")


def run_saxpy(kernel: Kernel, a: float, x: array[float], y: array[float]) -> array[float]:
    size = len(x) * x.itemsize
    with kernel.memory(size) as device_x, kernel.memory(size) as device_y:
        device_x.write(memoryview(x.tobytes()))  # read-only
        device_y.write(y)
        kernel.launch(4, 128, ctypes.c_ulonglong(len(x)), ctypes.c_float(a), device_x, device_y)
        device_y.read(y)
    return y


def test_no_driver_is_an_answer(tmp_path):
    missing = str(tmp_path / "libcuda.so.1")
    problem = probe((missing,)).problem
    assert str(problem) == (
        f"no NVIDIA driver ({missing}: cannot open shared object file: No such file or directory)"
    )


def test_a_library_that_is_no_driver_is_an_answer():
    found = open_driver(("libc.so.6",))
    assert isinstance(found, NoDriver)
    assert str(found.reason).startswith(
        "libc.so.6 cannot be used as the NVIDIA driver: it lacks cuInit, cuDriverGetVersion, "
    )


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("10020", "{} is for CUDA 10.2; this runtime needs 11.0 or newer"),
        ("13000", "{} cannot be used as the NVIDIA driver: it lacks cuLaunchKernel"),
    ],
)
def test_the_version_is_compared_before_functions(stub_without_launches, monkeypatch, version, problem):
    monkeypatch.setenv("STUB_VERSION", version)
    assert str(probe((stub_without_launches,)).problem) == problem.format(stub_without_launches)


def test_a_driver_that_will_not_start_is_an_answer(stub, monkeypatch):
    monkeypatch.setenv("STUB_INIT", "34")
    assert str(probe((stub,)).problem) == (
        "cuInit failed: CUDA_ERROR_STUBBED (34): words of the stub\n"
        "What to do: a toolkit's stub was loaded: take its `stubs` folder out of LD_LIBRARY_PATH"
    )
    monkeypatch.delenv("STUB_INIT")
    assert probe((stub,)).driver == (13, 0), "a failure is not remembered"


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e300"])
def test_any_time_limit_is_waited_for_without_an_error(seconds):
    attempt = Attempt(DRIVER, lambda: time.sleep(0.05) or 1)
    assert attempt.wait(patience({"GPUFORGE_DRIVER_TIMEOUT": seconds})) == 1


def test_after_a_library_that_does_not_answer_others_get_a_tenth_of_the_time(monkeypatch):
    monkeypatch.setattr(Attempt, "lost", False)
    attempts = [Attempt(DRIVER, lambda: time.sleep(1), ("/absent",)) for _ in range(2)]
    assert [each.wait(0.1).facts["seconds"] for each in [*attempts, *attempts]] == ["0.1", "0.01"] * 2


def test_a_library_that_fails_in_python_is_an_answer_with_the_file_that_was_opened():
    attempt = Attempt(DRIVER, lambda: 1 // 0, ("/opt/libcuda.so.1",))
    assert str(attempt.wait(1)) == (
        "/opt/libcuda.so.1 cannot be used as the NVIDIA driver: integer division or modulo by zero"
    )


def of_zeros(folder: Path, **functions: str) -> str:
    """A driver whose functions do nothing and return 0, but for those given in C."""
    source = folder / "driver.c"
    names = {**DRIVER.required, **DRIVER.optional}
    parts = [f"int {name}{functions.get(name, '(void) { return 0; }')}\n" for name in names]
    source.write_text("".join(["#include <string.h>\n#include <unistd.h>\n", *parts]))
    library = source.with_name("libcuda.so.1")
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", source, "-o", library], check=True)
    return str(library)


ONE_DEVICE = {
    "cuDriverGetVersion": "(int *n) { *n = 13000; return 0; }",
    "cuDeviceGetCount": "(int *n) { *n = 1; return 0; }",
}


@pytest.mark.parametrize(
    ("functions", "problem"),
    [
        ({}, "{} is for CUDA 0.0; this runtime needs 11.0 or newer"),
        (
            {**ONE_DEVICE, "cuDeviceGetCount": "(int *n) { *n = 1u << 31; return 0; }"},
            "the driver sees no GPU",
        ),
        (
            {**ONE_DEVICE, "cuDeviceGetCount": "(int *n) { *n = ~0u >> 1; return 0; }"},
            "the driver sees no GPU",
        ),
        (
            {**ONE_DEVICE, "cuDeviceGetName": "(char *name) { sleep(60); return 0; }"},
            f"the NVIDIA driver did not answer within 0.5 seconds: {DRIVER.advice}",
        ),
    ],
    ids=["zeros", "fewer than none", "two billion", "hangs at a device"],
)
@pytest.mark.thorough
def test_a_driver_that_lies_is_an_answer(functions, problem, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUFORGE_DRIVER_TIMEOUT", "0.5")
    monkeypatch.setattr(Attempt, "lost", False)
    library = of_zeros(tmp_path, **functions)
    assert str(probe((library,)).problem) == problem.format(library)


@pytest.mark.thorough
def test_a_device_that_answers_nothing_runs_nothing(tmp_path):
    driver = of_zeros(tmp_path, **ONE_DEVICE)
    with pytest.raises(KernelUnavailable, match=r"this device is 0\.0"):
        KernelSet(write_set(tmp_path / "default-kernels"), env={}, driver=driver).function("saxpy")


@pytest.mark.thorough
def test_a_driver_that_never_opens_is_an_answer_and_other_libraries_open(tmp_path):
    os.mkfifo(tmp_path / "libcuda.so.1")
    program = "from gpuforge.runtime import probe; print(probe().problem); import _sqlite3"
    env = {**os.environ, "LD_LIBRARY_PATH": f"/absent:{tmp_path}", "GPUFORGE_DRIVER_TIMEOUT": "0.5"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == f"the NVIDIA driver did not answer within 0.5 seconds: {DRIVER.advice}\n"


STEERING = '"\\x1b[31mRed\\x07\\xe2\\x80\\xae\\n2"'


@pytest.mark.thorough
def test_what_a_driver_or_a_variable_says_steers_no_terminal(tmp_path):
    driver = of_zeros(
        tmp_path,
        **ONE_DEVICE,
        cuDeviceGetName=f"(char *name) {{ strcpy(name, {STEERING}); return 0; }}",
        cuDeviceGetAttribute="(int *value, int which) { *value = which == 75 ? 9 : 0; return 0; }",
        cuGetErrorName=f"(int code, char **name) {{ *name = {STEERING}; return 0; }}",
        cuGetErrorString=f"(int code, char **text) {{ *text = {STEERING}; return 0; }}",
        cuLibraryLoadData="(void) { return 200; }",
    )
    env = {"GPUFORGE_KERNELS_DEFAULT_KERNELS": "/\x1b[31m", "GPUFORGE_KERNEL_HOME": "\x9b31m"}
    kernels = KernelSet(write_set(tmp_path / "default-kernels"), env=env, driver=driver)
    texts = [kernels.explain()]
    assert "GPU 0: \\x1b[31mRed\\x07\\u202e 2, compute" in texts[0]
    with pytest.raises(KernelUnavailable) as failed:
        kernels.function("saxpy")
    found = open_driver((driver,))
    assert isinstance(found, Driver)
    with pytest.raises(DriverError) as refused:
        found.load(b"")
    texts += [*failed.value.reasons, str(failed.value), str(refused.value), refused.value.text]
    texts.append(str(Reason("switched-off", {"variable": "X", "value": "\x1b[2J\udc9b"})))
    assert [text for text in texts if not text.replace("\n", "").isprintable()] == []


def test_what_the_probe_sees(stub, monkeypatch):
    monkeypatch.setenv("STUB_DEVICES", "2")
    monkeypatch.setenv("STUB_VERSION", "12040")
    devices = (Device(0, "Stub 0", (9, 0)), Device(1, "Stub 1", (9, 0)))
    assert probe((stub,)) == Probe((12, 4), devices)


def test_a_driver_without_a_gpu(stub, monkeypatch):
    monkeypatch.setenv("STUB_DEVICES", "0")
    assert probe((stub,)) == Probe((13, 0), (), Reason("no-devices"))


def test_a_probe_that_fails_half_way_is_an_answer(stub, monkeypatch):
    monkeypatch.setenv("STUB_ATTRIBUTE", "12345")
    assert str(probe((stub,)).problem) == "cuDeviceGetAttribute failed: unknown error (12345): no description"


def test_a_kernel_runs(kernels, stub):
    kernel = kernels.function("saxpy", module="saxpy")
    x, y = array("f", range(1000)), array("f", [1.0] * 1000)
    assert run_saxpy(kernel, 2.0, x, y) == array("f", (2.0 * i + 1.0 for i in range(1000)))
    assert counter(stub, "stub_allocated") == 0, "all memory was given back"
    assert ctypes.CDLL(stub).stub_depth() == 1, "where none was current, the device's own stays so"


def test_an_empty_array_is_no_special_case(kernels):
    assert run_saxpy(kernels.function("saxpy", module="saxpy"), 2.0, array("f"), array("f")) == array("f")


def test_threads_load_a_module_once(kernels, stub):
    start = threading.Barrier(8)
    results: list[array[float]] = []

    def work() -> None:
        start.wait()
        kernel = kernels.function("saxpy", module="saxpy")
        results.append(run_saxpy(kernel, 2.0, array("f", [1.0]), array("f", [3.0])))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [array("f", [5.0])] * 8
    assert counter(stub, "stub_loads") == 1


def test_a_failed_load_is_explained_and_tried_again(kernels, stub, monkeypatch):
    monkeypatch.setenv("STUB_LOAD", "218")
    with pytest.raises(KernelUnavailable) as error:
        kernels.function("saxpy", module="saxpy")
    matches("not_loaded.txt", str(error.value))
    matches("not_loaded_explained.txt", kernels.explain())
    monkeypatch.delenv("STUB_LOAD")
    kernels.function("saxpy", module="saxpy")
    assert "failed" not in kernels.explain()
    assert counter(stub, "stub_loads") == 2


def test_a_kernel_that_the_module_has_not(kernels):
    with pytest.raises(UnknownKernel) as error:
        kernels.function("daxpy", module="saxpy")
    assert str(error.value).startswith(
        "module saxpy of kernel set default-kernels has no kernel 'daxpy'\n"
        "cubin sm_90: has no kernel daxpy: cuLibraryGetKernel failed: CUDA_ERROR_NOT_FOUND (500): words of the stub\n"
        'What to do: the module has no kernel of that name: declare it extern "C"\n'
    )


def test_a_fault_on_the_gpu_is_raised_and_memory_freed(kernels, stub, monkeypatch):
    kernel = kernels.function("saxpy", module="saxpy")
    monkeypatch.setenv("STUB_READ", "700")
    with pytest.raises(DriverError) as error:
        run_saxpy(kernel, 2.0, array("f", [1.0]), array("f", [1.0]))
    assert (error.value.call, error.value.code) == ("cuMemcpyDtoHAsync_v2", 700)
    assert counter(stub, "stub_allocated") == 0


def test_a_failure_to_free_does_not_hide_another():
    class Lost(Owned):
        def free(self) -> None:
            raise OSError("the GPU is lost")

    with pytest.raises(KeyError), Lost():
        raise KeyError("of the launch")
    with pytest.raises(OSError, match="is lost"), Lost():
        pass


@pytest.mark.parametrize("use", [copy.copy, copy.deepcopy, pickle.dumps])
def test_memory_has_one_owner(kernels, use):
    kernel = kernels.function("saxpy")
    for memory in (kernel.memory(8), kernel.upload(array("f", [1]))):
        with memory, pytest.raises(TypeError, match="it has one owner"):
            use(memory)


def test_no_room_on_the_device(kernels):
    with pytest.raises(DriverError) as error:
        kernels.function("saxpy", module="saxpy").memory(1 << 30)
    assert str(error.value) == (
        "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (2): words of the stub\n"
        "What to do: free memory on the GPU: `nvidia-smi` lists the processes that hold it"
    )


def test_a_buffer_of_another_size_is_refused(kernels):
    with kernels.function("saxpy", module="saxpy").memory(8) as memory:
        for copy in (memory.write, memory.read):
            with pytest.raises(
                ValueError, match=r"^array of float32 with shape \(1,\) has 4 bytes, and the memory 8$"
            ):
                copy(array("f", [1.0]))


def test_switched_off_the_driver_is_not_opened(tmp_path, monkeypatch):
    folder = write_set(tmp_path / "default-kernels")
    off = KernelSet(folder, env={"GPUFORGE_DISABLE_GPU": "1"}, driver="/nowhere/libcuda.so.1")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_: pytest.fail("the driver was opened"))
    with pytest.raises(KernelUnavailable) as error:
        off.function("saxpy", module="saxpy")
    assert error.value.reasons == ("switched off (GPUFORGE_DISABLE_GPU=1)",)


def test_a_forked_child_is_told_why(stub):
    program = f"""
import os
from gpuforge.runtime.driver import open_driver
open_driver(({stub!r},))
child = os.fork()
if child == 0:
    print(str(open_driver(({stub!r},)).reason), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == (
        "this process was forked after its parent used the GPU; start workers with 'spawn'\n"
    )


def test_the_loader_finds_the_driver_by_its_soname(stub):
    program = "from gpuforge.runtime import probe; print(probe().devices[0].name)"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(Path(stub).parent)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "Stub 0\n"


def test_a_driver_object_is_kept(stub):
    first = open_driver((stub,))
    assert isinstance(first, Driver)
    assert open_driver((stub,)) is first
