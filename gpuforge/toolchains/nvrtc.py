"""NVRTC, CUDA's compiler as a library: on the user's machine it compiles one source into machine code for its GPU."""

from __future__ import annotations

from collections.abc import Sequence

from gpuforge.cuda.suffix import of_nvidia
from gpuforge.cuda.version import major_of
from gpuforge.toolchains.family import CompilerCall
from gpuforge.toolchains.toolchain import Toolchain


def package(toolkit: str) -> str:
    """Return the name of NVIDIA's package for a CUDA toolkit ("12.4"), which has no suffix from CUDA 13 on."""
    return of_nvidia("nvidia-cuda-nvrtc", major_of(toolkit))


def requirement(toolkit: str) -> str:
    """Return the requirement of a wheel's extra: any release of the major, as its drivers run the code of all."""
    major = major_of(toolkit)
    return f"{package(toolkit)}>={major},<{major + 1}"


def module(flags: Sequence[str], toolkit: str) -> CompilerCall:
    """Return the options for compiling one source; `{arch}` is filled in on the user's machine ("90").

    https://docs.nvidia.com/cuda/nvrtc/index.html#supported-compile-options
    """
    return CompilerCall(
        argv=("--gpu-architecture=sm_{arch}", "--std=c++17", *flags),
        install={"": f"pip install {package(toolkit)}"},
        makes="module",
    )


TOOLCHAIN = Toolchain(name="nvrtc", compiles=(".cu",), module=module, extra=requirement)
