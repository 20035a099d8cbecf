"""Compilers on users' machines without a known program: NVRTC, OpenCL's drivers, a command of the manifest."""

from collections.abc import Sequence
from typing import NamedTuple

from packaging.specifiers import SpecifierSet

from gpuforge.cuda.suffix import of_nvidia
from gpuforge.cuda.version import major_of
from gpuforge.toolchains.toolchain import CompilerCall, Toolchain


def nvrtc_package(toolkit: str) -> str:
    """Return the name of NVIDIA's package for a CUDA toolkit ("12.4"), which has no suffix from CUDA 13 on."""
    return of_nvidia("nvidia-cuda-nvrtc", major_of(toolkit))


def nvrtc_requirement(toolkit: str) -> str:
    """Return the requirement of a wheel's extra: any release of the major, as its drivers run the code of all."""
    major = major_of(toolkit)
    return f"{nvrtc_package(toolkit)}>={major},<{major + 1}"


def nvrtc_module(flags: Sequence[str], toolkit: str) -> CompilerCall:
    """Return the options for compiling one source; `{arch}` is filled in on the user's machine ("90").

    https://docs.nvidia.com/cuda/nvrtc/index.html#supported-compile-options
    """
    return CompilerCall(
        argv=("--gpu-architecture=sm_{arch}", "--std=c++17", *flags),
        install={"": f"pip install {nvrtc_package(toolkit)}"},
        makes="module",
    )


NVRTC = Toolchain(name="nvrtc", compiles=(".cu",), module=nvrtc_module, extra=nvrtc_requirement)


def opencl_requirement(toolkit: str) -> str:
    """Return the requirements of a wheel's extra, which are the same for every toolkit."""
    return "pyopencl>=2022.1"


def opencl_module(flags: Sequence[str], toolkit: str) -> CompilerCall:
    """Return the options for building one program; `{folders}` is each folder with sources or headers.

    https://registry.khronos.org/OpenCL/sdk/3.0/docs/man/html/clBuildProgram.html
    """
    return CompilerCall(argv=(*flags, "-I{folders}"), install={"": "pip install pyopencl"}, makes="module")


OPENCL = Toolchain(name="opencl", compiles=(".cl",), module=opencl_module, extra=opencl_requirement)


COMMAND = Toolchain(
    name="command", compiles=(), by_command=True, builtin=("fallback library", "user-compiled")
)


class Bound(NamedTuple):
    """One comparison with a version, whose missing numbers count as zero; all bounds of a range must hold."""

    operator: str  # ">=", "<=", ">", "<", "==" or "!="; "==*" and "!=*" compare only the given numbers
    numbers: tuple[int, ...]


def bounds(text: str) -> list[Bound]:
    """Return a PEP 440 range as comparisons; raises ValueError for versions that are more than numbers."""
    return [bound for clause in SpecifierSet(text) for bound in _bounds(clause.operator, clause.version)]


def _bounds(operator: str, version: str) -> list[Bound]:
    prefix = version.endswith(".*")
    numbers = tuple(int(part) for part in version.removesuffix(".*").split("."))
    # https://packaging.python.org/en/latest/specifications/version-specifiers/#compatible-release
    if operator == "~=":
        return [Bound(">=", numbers), Bound("==*", numbers[:-1])]
    if operator == "===":
        operator = "=="
    return [Bound(f"{operator}*" if prefix else operator, numbers)]
