"""A kernel set with sources for every back end, laid out as in a wheel, and a stand-in for NVRTC."""

import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import pytest
from library_samples import compile_library

from gpuforge.cuda.kernels import KernelImage
from gpuforge.package import embed, kernel_set
from gpuforge.package.contents import CompiledBy, CompiledLibrary, LibrarySet, SourceSet, UserToolchain
from gpuforge.runtime.cpu import CpuLevel

CUDA = """\
#include "scale.h"
extern "C" __global__ void saxpy(unsigned long long n, float a, float *x)
{
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] = SCALE(a, x[i]);
}
"""
OPENCL = """\
#include "scale.h"
__kernel void saxpy(ulong n, float a, __global float *x)
{
    if (get_global_id(0) < n) x[get_global_id(0)] = SCALE(a, x[get_global_id(0)]);
}
"""
CPU = """\
#include "scale.h"
extern "C" void saxpy(unsigned long long n, float a, float *x)
{
    for (unsigned long long i = 0; i < n; i++) x[i] = SCALE(a, x[i]);
}
"""
HEADER = "#define SCALE(a, x) ((a) * (x))\n"
NVRTC_SOURCE = Path(__file__).with_name("nvrtc_stub.c")


def nvrtc_stub(folder: Path, *flags: str) -> Path:
    """Write the stand-in to a folder; returns its file, `libnvrtc.so.12`. `flags` are its C compiler's."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to make the library that stands in for NVRTC")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvrtc.so.12"
    library.write_bytes(_compiled_stub(*flags))
    return library


@cache
def _compiled_stub(*flags: str) -> bytes:
    """The stand-in, compiled once by each process of tests."""
    with TemporaryDirectory() as folder:
        library = Path(folder, "stub.so")
        argv = ["gcc", "-shared", "-fPIC", "-O1", *flags, str(NVRTC_SOURCE), "-o", str(library)]
        subprocess.run(argv, check=True)
        return library.read_bytes()


@cache
def _compiled_for_the_cpu(source: str, header: str) -> bytes:
    """The library of the CPU's kernel, compiled once by each process of tests."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scale.cpp").write_text(source)
        (folder / "scale.h").write_text(header)
        return compile_library(folder / "cpu.so", folder / "scale.cpp", abi="").read_bytes()


def recipe(name: str, family: str, argv: tuple[str, ...], source: str, install: str) -> UserToolchain:
    return UserToolchain(
        name=name,
        family=family,
        version="",
        argv=argv,
        sources=(source,),
        install={"": install},
        makes="module",
    )


NVRTC = recipe(
    "rtc", "nvrtc", ("-std=c++17", "--gpu-architecture=sm_{arch}"), "mod/scale.cu", "pip install demo[nvrtc]"
)
OPENCL_C = recipe("cl", "opencl", ("-I{folders}",), "mod/scale.cl", "pip install demo[opencl]")


def install_set(
    site: Path,
    *toolchains: UserToolchain,
    cpu: bool = True,
    cuda: str = CUDA,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Lay a package `demo` with the set `ops` into a folder; return the runtime's home, which holds the sources.

    `more` are other sources of it.
    """
    work = site.parent / "set-work"
    (work / "mod").mkdir(parents=True)
    texts = {"scale.cu": cuda, "scale.cl": OPENCL, "scale.cpp": CPU, "scale.h": HEADER}
    for name, text in {**texts, **more}.items():
        (work / "mod" / name).write_text(text)
    packed = [
        kernel_set.pack_sources(
            work / "packed",
            SourceSet(
                name="ops",
                kind="module",
                sources=tuple(f"mod/{name}" for name in ("scale.cu", "scale.cl", "scale.cpp", *more)),
                includes=("mod/scale.h",),
                toolchains=toolchains or (NVRTC, OPENCL_C),
                toolkit="12.4",
                archs=("80",),
                cpu="ops-cpu" if cpu else "",
            ),
            work,
        ).parents[1]
    ]
    if cpu:
        library = work / "cpu.so"
        library.write_bytes(_compiled_for_the_cpu(CPU, HEADER))
        kernel_set.pack_libraries(
            work / "packed",
            LibrarySet(
                name="ops-cpu",
                toolchain=CompiledBy("g++", "12.2.0"),
                toolkit="12.4",
                abi="",
                stands_in_for="ops",
            ),
            [CompiledLibrary(library, (KernelImage("library", CpuLevel()),))],
        )
    (site / "demo").mkdir(parents=True)
    (site / "demo" / "__init__.py").write_text("")
    embed.kernel_sets(site, "demo", packed)
    shutil.rmtree(work)
    return site / "demo" / "_gpuforge"
