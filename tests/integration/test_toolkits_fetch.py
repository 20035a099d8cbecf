"""A toolkit really fetched from PyPI: nvcc compiles with it, CMake accepts it, failures leave nothing behind."""

import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpuforge.actions.toolkit import FetchToolkit
from gpuforge.cuda.targets import targets
from gpuforge.errors import ActionError, MissingError
from gpuforge.toolchains.detect import detect
from gpuforge.toolchains.nvcc import module_argv
from gpuforge.toolkits.providers.pypi import fetch
from gpuforge.toolkits.providers.system import installed
from gpuforge.toolkits.select import select
from gpuforge.toolkits.toolkit import Wheels

pytestmark = [
    pytest.mark.network,
    pytest.mark.toolkit,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]
MACHINE = platform.machine()
FATBIN_MAGIC = bytes.fromhex("50ed55ba")
KERNEL = """
namespace { __device__ int calls; }
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { y[i] = a * x[i] + y[i]; atomicAdd(&calls, 1); }
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.24)
project(probe LANGUAGES CXX CUDA)
find_package(CUDAToolkit 13.0 REQUIRED)
add_library(probe SHARED probe.cu)
target_link_libraries(probe PRIVATE CUDA::cufft CUDA::cudart)
"""
PROBE = """
#include <cufft.h>
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
extern "C" int probe(float* x) { twice<<<1, 32>>>(x); int v; return cufftGetVersion(&v); }
"""


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = select("13.0", provider=None, libraries=["cufft"], machine=MACHINE)
    root = tmp_path_factory.mktemp("toolkit") / "cuda"
    fetch(chosen.source, root)
    return root


def test_the_tree_is_found_as_an_installed_toolkit(toolkit):
    found = list(installed([toolkit]))

    assert [(f.minor, f.root) for f in found] == [("13.0", toolkit)]
    assert detect("nvcc", path=str(toolkit / "bin" / "nvcc")).version.major == 13
    assert not list(toolkit.parent.glob(".*.partial"))


def test_nvcc_compiles_one_source_to_one_fatbin_with_the_same_bytes_each_time(toolkit, tmp_path):
    source = tmp_path / "k.cu"
    source.write_text(KERNEL)
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        output = tmp_path / name / "k.fatbin"
        argv = module_argv(str(toolkit / "bin" / "nvcc"), source=str(source), output=str(output),
                           targets=targets(["80", "90a", "100f", "120+ptx"]), host="g++")  # fmt: skip
        env = {**os.environ, "TMPDIR": str(tmp_path / name)}
        subprocess.run(argv, check=True, cwd=tmp_path / name, env=env)
        made.append(output.read_bytes())
        source.touch()

    assert made[0].startswith(FATBIN_MAGIC)
    assert made[0] == made[1]


def test_code_is_optimised_when_it_is_linked(toolkit, tmp_path):
    (tmp_path / "one.cu").write_text(
        "__device__ int twice(int);\n__global__ void k(int *p) { *p = twice(*p); }\n"
    )
    (tmp_path / "two.cu").write_text("__device__ int twice(int x) { return 2 * x; }\n")
    flags = ["-dlto", "-rdc=true", "-arch=sm_80", "-shared", "-Xcompiler", "-fPIC", "-o", "both.so"]
    subprocess.run([toolkit / "bin" / "nvcc", *flags, "one.cu", "two.cu"], check=True, cwd=tmp_path)
    assert (tmp_path / "both.so").read_bytes().startswith(b"\x7fELF")


def test_cmake_accepts_the_tree_and_the_library_names_the_sonames(toolkit, tmp_path):
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("needs cmake")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "probe.cu").write_text(PROBE)
    environment = {**os.environ, "CUDACXX": str(toolkit / "bin" / "nvcc"), "CUDAToolkit_ROOT": str(toolkit)}
    build = tmp_path / "build"
    configure = [cmake, "-S", str(tmp_path), "-B", str(build), "-DCMAKE_CUDA_ARCHITECTURES=90"]
    said = subprocess.run(configure, env=environment, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    subprocess.run([cmake, "--build", build], env=environment, check=True)

    needed = subprocess.run(
        ["readelf", "-d", build / "libprobe.so"], capture_output=True, text=True, check=True
    ).stdout
    assert "libcufft.so.12" in needed
    assert "libcudart.so.13" in needed


def small_wheel() -> Wheels:
    chosen = select("13.0", provider="pypi", libraries=[], machine=MACHINE)
    return Wheels(tuple(pin for pin in chosen.source.pins if pin.package == "nvidia-cuda-crt"))


def test_a_wheel_with_another_hash_is_refused(tmp_path):
    other = hashlib.sha256(b"other").hexdigest()
    wheels = Wheels(tuple(replace(pin, sha256=other) for pin in small_wheel().pins))

    with pytest.raises(ActionError, match="arrived broken"):
        fetch(wheels, tmp_path / "cuda")
    assert list(tmp_path.iterdir()) == []


def test_no_way_to_pypi_is_a_missing_thing(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "https://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)

    with pytest.raises(MissingError, match="cannot fetch the CUDA packages"):
        fetch(small_wheel(), tmp_path / "cuda")
    assert list(tmp_path.iterdir()) == []


def test_a_terminated_step_leaves_nothing(tmp_path):
    source = select("13.0", provider=None, libraries=["cufft"], machine=MACHINE).source
    assert source is not None
    file = tmp_path / "request.json"
    file.write_text(FetchToolkit(provider="pypi", source=source).text())
    (tmp_path / "out").mkdir()
    argv = [sys.executable, "-m", "gpuforge.actions.entry", "toolkit.FetchToolkit"]
    env = {**os.environ, "PIP_NO_CACHE_DIR": "1"}
    step = subprocess.Popen([*argv, str(file), str(tmp_path / "out" / "end.json")],
                            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("out/.*.partial/requirements.txt")) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    step.send_signal(signal.SIGTERM)
    _, said = step.communicate(timeout=30)

    assert (step.returncode, said) == (130, "error: interrupted\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["end.json"]
