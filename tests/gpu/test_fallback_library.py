"""A fallback library made by nvcc: its code for this GPU, its PTX, and the CPU where it is not used."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("packaging", reason="gpuforge's own compilers are read with packaging")

from gpuforge.cuda.targets import targets
from gpuforge.toolchains.nvcc import library_argv

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

RUNTIME = Path(__file__).parents[2] / "gpuforge" / "runtime"
ARCHS = ("75+ptx", "80", "90", "100", "120")  # "common" of CUDA 13.0
HEADER = """\
extern "C" int ops_saxpy(int n, float a, const float *x, float *y);
extern "C" const char *ops_where(void);
"""
CUDA = """\
#include "ops.h"
static __global__ void kernel(int n, float a, const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
int ops_saxpy(int n, float a, const float *x, float *y)
{
    float *device = nullptr;
    cudaError_t status = cudaMalloc(&device, 2 * n * sizeof(float));
    if (status != cudaSuccess)
        return status;
    cudaMemcpy(device, x, n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(device + n, y, n * sizeof(float), cudaMemcpyHostToDevice);
    kernel<<<(n + 255) / 256, 256>>>(n, a, device, device + n);
    status = cudaGetLastError();
    if (status == cudaSuccess)
        status = cudaMemcpy(y, device + n, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(device);
    return status;
}
const char *ops_where(void) { return "cuda"; }
"""
CPU = """\
#include "ops.h"
int ops_saxpy(int n, float a, const float *x, float *y)
{
    for (int i = 0; i < n; ++i)
        y[i] = a * x[i] + y[i];
    return 0;
}
const char *ops_where(void) { return "cpu"; }
"""
APPLY = """
import ctypes, json, sys
from array import array
from gpuforge.runtime.kernellibrary import KernelLibrary

found = KernelLibrary("ops", home=sys.argv[1])
library = found.load()
library.ops_where.restype = ctypes.c_char_p
x, y = array("f", range(5000)), array("f", [1.0] * 5000)
address = lambda values: ctypes.c_void_p(values.buffer_info()[0])
status = library.ops_saxpy(5000, ctypes.c_float(2.0), address(x), address(y))
right = list(y) == [2.0 * i + 1 for i in range(5000)]
print(json.dumps([library.ops_where().decode(), status, right, found.explain()]))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nvcc, gxx = shutil.which("nvcc"), shutil.which("g++")
    if nvcc is None or gxx is None:
        pytest.skip("no nvcc or no g++ on this machine")
    home = tmp_path_factory.mktemp("home")
    for name, text in (("ops.h", HEADER), ("ops.cu", CUDA), ("ops.cpp", CPU)):
        (home / name).write_text(text)
    wanted, abi = targets(ARCHS), '-DGPUFORGE_ABI_ID="1-abc"'
    toolkit = Path(nvcc).resolve().parents[1]
    gpu = library_argv(
        nvcc,
        sources=(str(home / "ops.cu"), str(RUNTIME / "abi.c")),
        output=str(home / "gpu.so"),
        targets=wanted,
        cudart="shared",
        host=gxx,
        flags=(abi, f"-Xlinker=-rpath={toolkit}/lib64", f"-Xlinker=-rpath={toolkit}/lib"),
    )
    subprocess.run(gpu, check=True)
    cpu = (gxx, "-O2", "-fPIC", "-shared", abi, str(home / "ops.cpp"), str(RUNTIME / "abi.c"))
    subprocess.run([*cpu, "-o", str(home / "cpu.so")], check=True)
    images = [{"kind": "cubin", "arch": target.arch.sm} for target in wanted if target.real]
    images += [{"kind": "ptx", "arch": t.arch.compute, "isa": "9.0"} for t in wanted if t.ptx]
    pack(home, "ops", home / "gpu.so", images, ["cpu-ops"])
    pack(home, "cpu-ops", home / "cpu.so", [{"kind": "library", "arch": ""}], [])
    return home


def pack(home: Path, name: str, library: Path, images: list[dict[str, str]], fallbacks: list[str]) -> None:
    folder = home / "kernels" / name
    folder.mkdir(parents=True)
    shutil.copyfile(library, folder / f"lib{name}.so")
    entry = {"file": f"lib{name}.so", "size": library.stat().st_size, "images": images}
    index = {"schema": 1, "name": name, "kind": "library", "toolkit": "13.0", "abi": "1-abc", "libraries": [entry],
             "fallbacks": fallbacks, "toolchain": {"family": "nvcc", "version": "13.0"}}  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index))


def apply(home: Path, **env: str) -> list[Any]:
    command = [sys.executable, "-c", APPLY, str(home)]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_it_runs_on_this_gpu_and_gives_what_the_cpu_gives(home):
    where, status, right, explained = apply(home)
    assert (where, status, right) == ("cuda", 0, True)
    assert explained.splitlines()[1].startswith("  used     ops cubin sm_")


def test_the_ptx_of_the_lowest_architecture_runs_on_this_gpu_too(home):
    """The driver passes over machine code with CUDA_FORCE_PTX_JIT=1."""
    where, status, right, _ = apply(home, CUDA_FORCE_PTX_JIT="1")
    assert (where, status, right) == ("cuda", 0, True)


def test_with_the_gpu_switched_off_the_cpus_library_is_used(home):
    where, status, right, explained = apply(home, GPUFORGE_DISABLE_GPU="1")
    assert (where, status, right) == ("cpu", 0, True)
    assert "switched off (GPUFORGE_DISABLE_GPU=1)" in explained
