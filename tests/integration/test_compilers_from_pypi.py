"""NVRTC and OpenCL as users get them, from PyPI: no GPU is needed to compile, and PoCL runs on the CPU.

`GPUFORGE_STORM=100x50 python -m pytest tests/integration/test_compilers_from_pypi.py` is the test at full size.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import builds
import pytest
from library_samples import printed, run
from runtime_samples import compile_stub
from set_samples import CUDA, NVRTC, install_set

from gpuforge import digest

pytestmark = [pytest.mark.network, pytest.mark.slow]

PACKAGES = (
    *("nvidia-cuda-nvrtc-cu12==12.4.127", "pyopencl", "pocl-binary-distribution==3.0"),
    *("pytools", "platformdirs", "typing_extensions", "siphash24"),  # what pyopencl needs beside NumPy
)
WITH_HEADERS = "nvidia-cuda-nvrtc>=13.3"  # CUDA's own, which it unpacks
WITH_FP16 = """
#include <cuda_fp16.h>
#include "scale.h"
extern "C" __global__ void saxpy(unsigned long long n, float a, __half *x)
{
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] = __float2half(SCALE(a, __half2float(x[i])));
}
"""
CHECKED = """
#include "gpuforge_errors.h"
extern "C" __global__ void checked(float *x, unsigned long n, GPUFORGE_ERRORS errors)
{
    unsigned long i = blockIdx.x * blockDim.x + threadIdx.x;
    GPUFORGE_BOUNDS(errors, i, n);
    x[i] = 1;
}
"""
EXPLAIN = "from demo._gpuforge import KernelSet; print(KernelSet.shipped('ops').explain())"
PROCESSES, KERNELS = map(int, os.environ.get("GPUFORGE_STORM", "8x8").split("x"))
STORM = """
import os, random, sys
from functools import partial
from demo._gpuforge import recipe
from demo._gpuforge.backends.nvrtc import compile_module, key_of
from demo._gpuforge.backends.nvrtc import find
from demo._gpuforge.cache import KernelCache

home, log = sys.argv[1:]
found = recipe.read(home)
part = found.sources_of(found.toolchains[0])
compiler = find(os.environ, (12, 4), "")
def hook(key, compile):
    with open(log, "a") as stream:
        stream.write(key.label + "\\n")
    return compile()
cache = KernelCache.of_user(os.environ)
cache.hook = hook
modules = sorted(part.modules.values())
random.Random(os.getpid()).shuffle(modules)
for module in modules:
    key = key_of(module, part, compiler, (9, 0))
    code = cache.obtain(key, partial(compile_module, module, part, compiler, key))
    assert code.startswith(b"\\x7fELF"), module.name
"""
USE = """
import json, os, sys, time
from dataclasses import asdict
import numpy as np
from demo._gpuforge import KernelSet
from demo._gpuforge.cache import KernelCache
compiled = []
KernelCache.of_user(os.environ).hook = lambda key, compile: compiled.append(asdict(key)) or compile()
begin = time.perf_counter()
kernel = KernelSet.shipped("ops").function("saxpy")
seconds = time.perf_counter() - begin
x = np.arange(1000, dtype="f4")
with kernel.upload(x) as device:
    kernel.launch(4, 256, np.uint64(len(x)), np.float32(3), device)
    result = np.empty_like(x)
    device.read(result)
kernel.launch(4, 256, np.uint64(len(x)), np.float32(2), x)
import pyopencl as cl, pyopencl.array as cla
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
own = KernelSet.shipped("ops").function("saxpy", context=context)
theirs = cla.to_device(queue, np.arange(1000, dtype="f4"))
own.launch(4, 256, np.uint64(1000), np.float32(5), theirs, stream=queue)
wrong = []
for arguments in ((np.uint64(1), np.float64(2), theirs), (np.uint64(1),), (np.uint64(1), 2.0, theirs)):
    try:
        own.launch(1, 1, *arguments)
    except TypeError as error:
        wrong.append(str(error))
print(json.dumps({
    "backend": kernel.backend, "compiled": compiled, "seconds": seconds,
    "right": [bool((a == n * np.arange(1000)).all()) for a, n in ((result, 3), (x, 2), (theirs.get(), 5))],
    "wrong": wrong,
}))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("packages"), *PACKAGES)


@pytest.fixture(scope="module")
def nvrtc_with_headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("nvrtc"), WITH_HEADERS)


def installed(folder: Path, *packages: str) -> Path:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    argv = [*pip, "--target", str(folder), *packages]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"PyPI does not have {' '.join(packages)}: {done.stderr.strip().splitlines()[-1]}")
    return folder


def environment(tmp_path: Path, packages: Path, **env: str) -> dict[str, str]:
    own = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    return {"PATH": os.defpath, "PYTHONPATH": str(packages), **own, **env}


def test_processes_that_need_the_same_kernels_compile_each_once(tmp_path, packages):
    """An empty cache, the same kernels in another order in each process: none is compiled twice, none fails."""
    site = tmp_path / "site"
    home = install_set(site, NVRTC, cpu=False)
    folder = home / "sources" / "ops"
    recipe = json.loads((folder / "recipe.json").read_text())
    names = [f"mod/k{number}.cu" for number in range(KERNELS)]
    for name in names:
        (folder / name).write_text(CUDA.replace("saxpy", f"saxpy_{Path(name).stem}"))
    recipe["sources"] = [{"file": name, "sha256": digest.of_file(folder / name)} for name in names]
    recipe["toolchains"][0]["sources"] = names
    (folder / "recipe.json").write_text(json.dumps(recipe))
    log = tmp_path / "compiled"
    env = environment(tmp_path, packages)
    begin = time.monotonic()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", STORM, str(folder), str(log)], cwd=site, env=env, stderr=subprocess.PIPE
        )
        for _ in range(PROCESSES)
    ]
    ended = [(process.communicate()[1].decode(), process.returncode) for process in started]
    seconds = time.monotonic() - begin
    print(f"{PROCESSES} processes, {KERNELS} kernels: {seconds:.1f} s")  # noqa: T201  for people
    assert ended == [("", 0)] * PROCESSES
    assert sorted(log.read_text().split()) == sorted(names)
    entries = list((tmp_path / "home").rglob("*.kernel"))
    assert len(entries) == KERNELS
    assert not list((tmp_path / "home").rglob("*.part"))


def test_what_nvrtc_itself_refuses_is_told_with_its_line(tmp_path, packages):
    site = tmp_path / "site"
    home = install_set(
        site, NVRTC, cpu=False, cuda='#include "scale.h"\n__global__ void f() { nothing(); }\n'
    )
    argv = [sys.executable, "-c", STORM, home / "sources" / "ops", tmp_path / "log"]
    done = builds.run(*argv, cwd=site, env=environment(tmp_path, packages))
    assert "mod/scale.cu: nvrtc 12.4.127 refuses it: " in done.stderr
    assert 'mod/scale.cu(2): error: identifier "nothing" is undefined' in done.stderr
    assert not list((tmp_path / "home").rglob("*.kernel"))


def test_a_node_without_a_gpu_or_a_toolkit_compiles_what_includes_headers_of_cuda(
    tmp_path, nvrtc_with_headers
):
    site = tmp_path / "site"
    install_set(site, NVRTC, cpu=False, cuda=WITH_FP16 + CHECKED)
    done = run(site, "compile", "--arch", "90", PYTHONPATH=str(nvrtc_with_headers))
    assert (done.returncode, done.stderr) == (0, "")
    assert "made by nvrtc 13." in done.stdout
    assert "for sm_90 (no such GPU is here), is used from now on" in done.stdout
    (cubin,) = (tmp_path / "builds").rglob("scale.cubin")
    assert cubin.read_bytes().startswith(b"\x7fELF")
    compile_stub(tmp_path)  # a device of 9.0
    found = printed(site, EXPLAIN, LD_LIBRARY_PATH=str(tmp_path), GPUFORGE_DISABLE_GPU="0")
    assert "used     user build cubin sm_90" in found
    assert "no NVRTC" in found


def test_an_older_nvrtc_names_one_that_has_headers_of_cuda(tmp_path, packages):
    site = tmp_path / "site"
    install_set(site, NVRTC, cpu=False, cuda=WITH_FP16)
    done = run(site, "compile", "--arch", "90", PYTHONPATH=str(packages))
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        "mod/scale.cu: includes cuda_fp16.h, which is no file of the package, and nvrtc 12.4.127 does not have "
        "CUDA's headers; NVRTC has them from 13.3 on, for drivers of CUDA 13: pip install 'nvidia-cuda-nvrtc>=13.3'"
    ) in done.stderr


def use(site: Path, env: dict[str, str]) -> dict[str, Any]:
    done = builds.run(sys.executable, "-c", USE, cwd=site, env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("pocl")
def test_opencl_is_used_without_a_gpu_and_compiled_once(tmp_path, packages):
    site = tmp_path / "site"
    install_set(site)
    env = environment(tmp_path, packages)
    first, second = use(site, env), use(site, env)
    assert (first["backend"], first["right"]) == ("opencl", [True, True, True])
    (key,) = first["compiled"]  # once for two contexts
    assert key["toolchain"].startswith("opencl Portable Computing Language OpenCL 3.0 PoCL 3.0")
    assert (key["driver"], key["options"]) == ("3.0-rc2", [])
    assert key["arch"].startswith("pthread-")
    assert [name for name, _ in key["headers"]] == ["mod/scale.h"]
    assert second["compiled"] == []
    assert second["right"] == [True, True, True]
    assert first["wrong"] == [
        "argument 1: numpy.float64 is given, and the parameter is float: pass numpy.float32(…). The kernel is "
        "saxpy(unsigned long, float, float *)",
        "saxpy(unsigned long, float, float *) takes 3 arguments, and 1 are given",
        "argument 1: a Python float has no C type: write numpy.float32(2.0)",
    ]
    told = builds.run(sys.executable, "-m", "demo._gpuforge", "explain", cwd=site, env=env).stdout
    assert "used     OpenCL source" in told
    assert "fits     CPU library" in told


@pytest.mark.usefixtures("pocl")
def test_what_opencl_refuses_is_told_and_the_cpu_does_the_work(tmp_path, packages, monkeypatch):
    monkeypatch.setattr("set_samples.OPENCL", "__kernel void saxpy( { }\n")
    site = tmp_path / "site"
    install_set(site)
    env = environment(tmp_path, packages)
    script = (
        "from demo._gpuforge import KernelSet\nkernels = KernelSet.shipped('ops')\n"
        "print(kernels.function('saxpy').backend)\nprint(kernels.explain())"
    )
    done = builds.run(sys.executable, "-c", script, cwd=site, env=env)
    assert done.stdout.startswith("cpu\n")
    assert "mod/scale.cl: pthread-" in done.stdout
    assert "expected parameter declarator" in done.stdout
    assert not list((tmp_path / "home").rglob("*.kernel"))
