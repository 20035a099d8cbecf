"""CUDA 11.8 and 12.4 of Debian's compiler, really fetched; the same as NVIDIA's archives from a local server."""

import email
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builds import build, edit
from toolkit_samples import serving

from gpuforge.cuda.targets import targets
from gpuforge.errors import MissingError
from gpuforge.toolchains.detect import detect
from gpuforge.toolchains.nvcc import module_argv
from gpuforge.toolkits import debian_parts
from gpuforge.toolkits.providers import redist
from gpuforge.toolkits.providers.debian import provision_debian
from gpuforge.toolkits.providers.system import installed
from gpuforge.toolkits.select import select

pytestmark = [pytest.mark.network, pytest.mark.toolkit, pytest.mark.xdist_group("providers")]
MACHINE = platform.machine()
KERNEL = """
#include <cub/block/block_reduce.cuh>
#include <cuda_fp16.h>
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.24...4.0)
project(probe LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
add_library(probe SHARED probe.cu)
set_target_properties(probe PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
target_link_libraries(probe PRIVATE CUDA::cufft CUDA::cudart)
install(TARGETS probe DESTINATION probe)
add_executable(main main.cu)
set_target_properties(main PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
target_link_libraries(main PRIVATE CUDA::cuda_driver)
"""
PROJECT = {
    "CMakeLists.txt": CMAKE,
    "probe.cu": """
#include <cufft.h>
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
extern "C" int probe(float* x) { twice<<<1, 32>>>(x); int v; return cufftGetVersion(&v); }
""",
    "main.cu": """
#include <cuda.h>
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
int main() { twice<<<1, 32>>>(nullptr); return cuInit(0); }
""",
    "src/probe/__init__.py": "",
    "pyproject.toml": """
[build-system]
requires = ["scikit-build-core>=0.10"]
build-backend = "scikit_build_core.build"
[project]
name = "probe"
version = "1"
[tool.scikit-build]
wheel.py-api = "py3"
""",
    "gpuforge.toml": """
schema = 1
[package]
name = "probe"
abi = "none"
[build]
requires = ["cmake>=3.26", "ninja"]
[toolchains.host]
compiler = "g++"
[cuda]
libraries = ["cufft"]
[cuda.12]
toolkit = "12.4"
archs = ["80"]
ptx = "80"
""",
}


@pytest.fixture(scope="module", autouse=True)
def _mirror() -> None:
    """Skip where no mirror of Debian can be reached."""
    import requests

    mirror = debian_parts.mirror()
    try:
        requests.head(mirror, timeout=20).close()
    except requests.RequestException as error:
        pytest.skip(f"{mirror} cannot be reached: {error}")


def fetched(version: str, libraries: list[str], root: Path) -> Path:
    chosen = select(version, provider="debian", libraries=libraries, machine=MACHINE)
    provision_debian(chosen.source.parts, chosen.source.pins, root)
    return root


@pytest.fixture(scope="module")
def cuda_12(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetched("12.4", ["cufft"], tmp_path_factory.mktemp("toolkit") / "cuda")


@pytest.fixture(scope="module")
def nvidia(cuda_12: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Publish that toolkit as NVIDIA's archives of 12.4.1; yield the address."""
    folder = tmp_path_factory.mktemp("redist")
    contents = {
        "cuda_nvcc": ("12.4.131", ["bin", "nvvm", "include/crt"]),
        "cuda_cudart": ("12.4.127", ["include", "lib"]),
        "cuda_cccl": ("12.4.127", ["include/cub", "include/thrust", "include/cuda", "include/nv"]),
        "cuda_cuobjdump": ("12.4.127", ["bin/cuobjdump"]),
        "libcufft": ("11.2.1.3", ["include/cufft.h"]),
    }
    listed: dict[str, Any] = {"release_date": "2024-03-28", "release_label": "12.4.1"}
    key = {"x86_64": "linux-x86_64", "aarch64": "linux-sbsa"}[MACHINE]
    for name, (version, parts) in contents.items():
        path = folder / f"{name}-{version}-archive.tar.gz"
        with tarfile.open(path, "w:gz", compresslevel=1) as archive:
            for part in parts:
                archive.add(cuda_12 / part, f"{name}-{key}-{version}-archive/{part}")
        row = {
            "relative_path": path.name,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "size": "1",
        }
        listed[name] = {"version": version, key: row}
    (folder / "redistrib_12.4.1.json").write_text(json.dumps(listed))
    with serving(folder) as server:
        yield server.url


def compiled(toolkit: Path, folder: Path, *, host: str, archs: list[str]) -> bytes:
    folder.mkdir(exist_ok=True)
    (folder / "k.cu").write_text(KERNEL)
    argv = module_argv(str(toolkit / "bin" / "nvcc"), source=str(folder / "k.cu"), output=str(folder / "k.fatbin"),
                       targets=targets(archs, archs[-1]), host=host)  # fmt: skip
    subprocess.run(argv, check=True, cwd=folder)
    return (folder / "k.fatbin").read_bytes()


def gxx(newest: int) -> str:
    try:
        return str(detect("g++", specifier=f"<{newest + 1}").path)
    except MissingError:
        pytest.skip(f"needs g++ {newest} or older")


def test_the_tree_is_found_as_an_installed_toolkit(cuda_12):
    assert [(f.minor, f.nvcc) for f in installed([cuda_12])] == [("12.4", "12.4.131")]


def test_cuda_12_compiles_the_images_asked_for_wherever_it_lies(cuda_12, tmp_path):
    first = compiled(cuda_12, tmp_path / "work", host=gxx(13), archs=["50", "90a"])
    said = subprocess.run(
        [cuda_12 / "bin" / "cuobjdump", "--list-elf", "--list-ptx", tmp_path / "work" / "k.fatbin"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert sorted(line.rpartition(": ")[2].split(".", 2)[2] for line in said.splitlines()) == [
        "sm_50.cubin",
        "sm_90a.cubin",
        "sm_90a.ptx",
    ]
    moved = shutil.copytree(cuda_12, tmp_path / "elsewhere", symlinks=True, copy_function=os.link)
    assert compiled(moved, tmp_path / "work", host=gxx(13), archs=["50", "90a"]) == first


def test_cuda_11_compiles_with_the_host_compiler_that_it_takes(tmp_path):
    host = gxx(11)
    toolkit = fetched("11.8", [], tmp_path / "cuda")
    assert compiled(toolkit, tmp_path / "work", host=host, archs=["35", "90"])[:4] == bytes.fromhex(
        "50ed55ba"
    )


def test_nvidia_s_archives_make_the_same_compiler(cuda_12, nvidia, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUFORGE_REDIST_URL", nvidia)
    chosen = select("12.4", provider="redist", libraries=["cufft"], machine=MACHINE)
    assert chosen.source is not None
    redist.fetch(chosen.source, tmp_path / "cuda")
    one, other = (
        compiled(tree, tmp_path / "work", host=gxx(13), archs=["80"]) for tree in (tmp_path / "cuda", cuda_12)
    )
    assert one == other


@pytest.mark.parametrize("provider", ["debian", "redist"])
def test_a_wheel_of_cuda_12_requires_what_its_symbols_need(nvidia, tmp_path, provider):
    gxx(13)
    for name, text in PROJECT.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    edit(tmp_path / "project", ("[cuda.12]", f'[cuda.12]\nprovider = "{provider}"'))
    result = build(tmp_path / "project", "-o", tmp_path, cache=tmp_path / "cache", GPUFORGE_REDIST_URL=nvidia)
    assert [(cell["provider"], cell["nvcc"]) for cell in result["cells"]] == [(provider, "12.4.131")]
    (wheel,) = result["wheels"]
    assert wheel["findings"] == []
    with zipfile.ZipFile(wheel["path"]) as archive:
        name = next(n for n in archive.namelist() if n.endswith("METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata.get_all("Requires-Dist") == [
        "nvidia-cuda-runtime-cu12>=12.0,<13",  # as old as the symbols allow, not as what was linked
        "nvidia-cufft-cu12>=11.0,<12",
    ]
