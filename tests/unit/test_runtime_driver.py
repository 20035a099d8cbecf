"""The runtime against a driver: a small C library, made here, stands in for libcuda."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from array import array
from pathlib import Path
from typing import Any

import pytest

from gpuforge.runtime import Device, DriverError, Kernel, KernelSet, KernelUnavailable, Probe, probe
from gpuforge.runtime.driver import Driver, NoDriver, open_driver

GOLDEN = Path(__file__).parents[1] / "golden" / "runtime"

STUB = r"""
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *name, int otherwise) { const char *t = getenv(name); return t ? atoi(t) : otherwise; }
int stub_loads, stub_allocated;
static __thread int depth;
int stub_depth(void) { return depth; }

int cuInit(unsigned flags) { (void)flags; return number("STUB_INIT", 0); }
int cuDriverGetVersion(int *v) { *v = number("STUB_VERSION", 13000); return 0; }
int cuDeviceGetCount(int *n) { *n = number("STUB_DEVICES", 1); return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Stub %d", device); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    if (number("STUB_ATTRIBUTE", 0)) return number("STUB_ATTRIBUTE", 0);
    int capability = number("STUB_CAPABILITY", 90);
    *value = attribute == 75 ? capability / 10 : capability % 10;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(size_t)(100 + device); return 0; }
int cuCtxPushCurrent_v2(void *context) { (void)context; ++depth; return 0; }
int cuCtxPopCurrent_v2(void **context) { *context = 0; --depth; return 0; }
int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values)
{
    if (!depth || strcmp(image, "a fatbin") || n != 2 || options[0] != 5 || options[1] != 6) return 1;
    ++stub_loads;
    if (number("STUB_LOAD", 0)) {
        snprintf(values[0], (size_t)values[1], "ptxas fatal: stub says no");
        return number("STUB_LOAD", 0);
    }
    *module = (void *)7;
    return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name)
{
    if (module != (void *)7 || strcmp(name, "saxpy")) return 500;
    *function = (void *)8;
    return 0;
}
int cuMemAlloc_v2(unsigned long long *address, size_t size)
{
    if (size > (1u << 20)) return 2;
    *address = (unsigned long long)malloc(size);
    ++stub_allocated;
    return 0;
}
int cuMemFree_v2(unsigned long long address) { free((void *)address); --stub_allocated; return 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t n) { memcpy((void *)to, from, n); return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t n)
{
    memcpy(to, (void *)from, n);
    return number("STUB_READ", 0);
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra)
{
    if (function != (void *)8 || !gx || gy * gz != 1 || !bx || by * bz != 1 || shared || stream || extra) return 1;
    unsigned long long n = *(unsigned long long *)arguments[0];
    float a = *(float *)arguments[1], *x = *(float **)arguments[2], *y = *(float **)arguments[3];
    for (unsigned long long i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
    return 0;
}
int cuGetErrorName(int code, const char **text)
{
    *text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 500 ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_STUBBED";
    return code == 12345;
}
int cuGetErrorString(int code, const char **text) { *text = "words of the stub"; return code == 12345; }
"""


@pytest.fixture(scope="module")
def built_stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to make the library that stands in for the driver")
    folder = tmp_path_factory.mktemp("stub")
    (folder / "cuda.c").write_text(STUB)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O0", "cuda.c", "-o", "libcuda.so.1"], cwd=folder, check=True)
    return folder / "libcuda.so.1"


@pytest.fixture
def stub(built_stub: Path, tmp_path: Path) -> str:
    """A driver of its own for each test: what opened is kept for the life of the process."""
    return str(shutil.copy(built_stub, tmp_path / "libcuda.so.1"))


def write_set(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "saxpy.fatbin").write_bytes(b"a fatbin")
    images = [
        {"kind": "cubin", "arch": "sm_75"},
        {"kind": "cubin", "arch": "sm_90"},
        {"kind": "ptx", "arch": "compute_90", "isa": "9.0"},
    ]
    module = {"name": "saxpy", "source": "kernels/saxpy.cu", "digest": "00", "file": "saxpy.fatbin",
              "sha256": hashlib.sha256(b"a fatbin").hexdigest(), "images": images}  # fmt: skip
    index = {"schema": 1, "name": folder.name, "kind": "module", "toolkit": "13.0", "modules": [module],
             "toolchain": {"family": "nvcc", "version": "13.0.88"}}  # fmt: skip
    (folder / "index.json").write_text(json.dumps({**index, **changes}))
    return folder


@pytest.fixture
def kernels(stub: str, tmp_path: Path) -> KernelSet:
    return KernelSet(write_set(tmp_path / "default-kernels"), env={}, driver=stub)


def counter(stub: str, name: str) -> int:
    return ctypes.c_int.in_dll(ctypes.CDLL(stub), name).value


def run_saxpy(kernel: Kernel, a: float, x: array[float], y: array[float]) -> array[float]:
    size = len(x) * x.itemsize
    with kernel.memory(size) as device_x, kernel.memory(size) as device_y:
        device_x.write(memoryview(x.tobytes()))  # read-only
        device_y.write(y)
        kernel.launch(4, 128, ctypes.c_ulonglong(len(x)), ctypes.c_float(a), device_x, device_y)
        device_y.read(y)
    return y


def test_no_driver_is_an_answer(tmp_path: Path) -> None:
    missing = str(tmp_path / "libcuda.so.1")
    problem = f"no NVIDIA driver ({missing}: cannot open shared object file: No such file or directory)"
    assert probe(missing) == Probe(None, problem=problem)


def test_a_library_that_is_no_driver_is_an_answer() -> None:
    found = open_driver("libc.so.6")
    assert isinstance(found, NoDriver)
    assert found.reason.startswith("libc.so.6 is not a driver this runtime can use (")
    assert "cuInit" in found.reason


def test_a_driver_that_will_not_start_is_an_answer(stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_INIT", "34")
    assert probe(stub) == Probe(None, problem="cuInit failed: CUDA_ERROR_STUBBED (34): words of the stub")
    monkeypatch.delenv("STUB_INIT")
    assert probe(stub).driver == (13, 0), "a failure is not remembered"


def test_what_the_probe_sees(stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_DEVICES", "2")
    monkeypatch.setenv("STUB_VERSION", "12040")
    devices = (Device(0, "Stub 0", (9, 0)), Device(1, "Stub 1", (9, 0)))
    assert probe(stub) == Probe((12, 4), devices)
    monkeypatch.setenv("STUB_DEVICES", "0")
    assert probe(stub) == Probe((12, 4), (), "the driver sees no GPU")


def test_a_probe_that_fails_half_way_is_an_answer(stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_ATTRIBUTE", "12345")
    assert probe(stub).problem == "cuDeviceGetAttribute failed: unknown error (12345): no description"


def test_a_kernel_runs(kernels: KernelSet, stub: str) -> None:
    kernel = kernels.function("saxpy", module="saxpy")
    x, y = array("f", range(1000)), array("f", [1.0] * 1000)
    assert run_saxpy(kernel, 2.0, x, y) == array("f", (2.0 * i + 1.0 for i in range(1000)))
    assert counter(stub, "stub_allocated") == 0, "all memory was given back"
    assert ctypes.CDLL(stub).stub_depth() == 0, "the caller's context is current again"


def test_an_empty_array_is_no_special_case(kernels: KernelSet) -> None:
    assert run_saxpy(kernels.function("saxpy", module="saxpy"), 2.0, array("f"), array("f")) == array("f")


def test_threads_load_a_module_once(kernels: KernelSet, stub: str) -> None:
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


def test_a_failed_load_is_explained_and_tried_again(
    kernels: KernelSet, stub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_LOAD", "218")
    failure = (
        "cuModuleLoadDataEx failed: CUDA_ERROR_STUBBED (218): words of the stub\nptxas fatal: stub says no"
    )
    with pytest.raises(KernelUnavailable) as error:
        kernels.function("saxpy", module="saxpy")
    assert error.value.reasons == (f"saxpy (cubin sm_90), kernel saxpy: {failure}",)
    assert f"the last attempt to load it failed: kernel saxpy: {failure}" in kernels.explain()
    monkeypatch.delenv("STUB_LOAD")
    kernels.function("saxpy", module="saxpy")
    assert "failed" not in kernels.explain()
    assert counter(stub, "stub_loads") == 2


def test_a_kernel_that_the_module_has_not(kernels: KernelSet) -> None:
    with pytest.raises(KernelUnavailable) as error:
        kernels.function("daxpy", module="saxpy")
    assert error.value.reasons == (
        "saxpy (cubin sm_90), kernel daxpy: "
        "cuModuleGetFunction failed: CUDA_ERROR_NOT_FOUND (500): words of the stub",
    )


def test_a_fault_on_the_gpu_is_raised_and_memory_freed(
    kernels: KernelSet, stub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kernels.function("saxpy", module="saxpy")
    monkeypatch.setenv("STUB_READ", "700")
    with pytest.raises(DriverError) as error:
        run_saxpy(kernel, 2.0, array("f", [1.0]), array("f", [1.0]))
    assert (error.value.call, error.value.code) == ("cuMemcpyDtoH_v2", 700)
    assert counter(stub, "stub_allocated") == 0


def test_no_room_on_the_device(kernels: KernelSet) -> None:
    with pytest.raises(
        DriverError,
        match=r"^cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY \(2\): words of the stub$",
    ):
        kernels.function("saxpy", module="saxpy").memory(1 << 30)


def test_a_buffer_of_another_size_is_refused(kernels: KernelSet) -> None:
    with kernels.function("saxpy", module="saxpy").memory(8) as memory:
        for copy in (memory.write, memory.read):
            with pytest.raises(ValueError, match=r"^the buffer holds 4 bytes and the device memory 8$"):
                copy(array("f", [1.0]))


def test_a_plain_number_has_no_c_type(kernels: KernelSet) -> None:
    with pytest.raises(TypeError, match=r"^a kernel's argument is a Memory or a ctypes value, not int$"):
        kernels.function("saxpy", module="saxpy").launch(1, 1, 5)


def test_switched_off_the_driver_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_set(tmp_path / "default-kernels")
    off = KernelSet(folder, env={"GPUFORGE_DISABLE_GPU": "1"}, driver="/nowhere/libcuda.so.1")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_: pytest.fail("the driver was opened"))
    with pytest.raises(KernelUnavailable) as error:
        off.function("saxpy", module="saxpy")
    assert error.value.reasons == ("switched off (GPUFORGE_DISABLE_GPU=1)",)


def test_no_image_for_this_gpu_names_each(kernels: KernelSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_CAPABILITY", "80")
    with pytest.raises(KernelUnavailable) as error:
        kernels.function("saxpy", module="saxpy")
    assert error.value.reasons == (
        "cubin sm_75: runs on 7.x from 7.5; this device is 8.0",
        "cubin sm_90: runs on 9.x from 9.0; this device is 8.0",
        "PTX compute_90: is for 9.0 and newer; this device is 8.0",
    )


def test_a_forked_child_is_told_why(stub: str) -> None:
    program = f"""
import os
from gpuforge.runtime.driver import open_driver
open_driver({stub!r})
child = os.fork()
if child == 0:
    print(open_driver({stub!r}).reason, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == (
        "this process was forked after its parent used the GPU; start workers with 'spawn'\n"
    )


def test_the_loader_finds_the_driver_by_its_soname(stub: str) -> None:
    program = "from gpuforge.runtime import probe; print(probe().devices[0].name)"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(Path(stub).parent)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "Stub 0\n"


@pytest.mark.parametrize(
    ("golden", "variable", "value"),
    [
        ("gpu.txt", "STUB_DEVICES", "1"),
        ("two_gpus.txt", "STUB_DEVICES", "2"),
        ("refused.txt", "STUB_CAPABILITY", "80"),
        ("old_driver.txt", "STUB_VERSION", "12020"),
        ("no_gpu.txt", "STUB_DEVICES", "0"),
    ],
)
def test_explain_as_a_whole(
    kernels: KernelSet, golden: str, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert kernels.explain() + "\n" == (GOLDEN / golden).read_text()


def test_explain_without_a_driver(tmp_path: Path) -> None:
    lonely = KernelSet(write_set(tmp_path / "default-kernels"), env={}, driver="libcuda-is-not-here.so.1")
    assert lonely.explain() + "\n" == (GOLDEN / "no_driver.txt").read_text()


def test_a_driver_object_is_kept(stub: str) -> None:
    first = open_driver(stub)
    assert isinstance(first, Driver)
    assert open_driver(stub) is first
