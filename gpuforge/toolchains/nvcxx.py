"""nvc++: the C++ compiler of NVIDIA's HPC SDK.

Its objects bind to the runtimes of the same SDK version, under names that a user's own link brings, too: a wheel may
contain sources for it, but not libraries made by it. It was written from the documented output, and not run here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.version import Version

from gpuforge.toolchains.family import CompilerCall, Family
from gpuforge.toolchains.toolchain import Toolchain


def parse(output: str) -> tuple[Version, str] | None:
    """Read `nvc++ 24.7-0 64-bit target on x86-64 Linux -tp haswell`; the identity has the `-tp`, which affects code."""
    match = re.search(r"^nvc\+\+ (\d+\.\d+)-(\d+)\b[^\n]*", output, re.MULTILINE)
    return (Version(f"{match[1]}.post{match[2]}"), match[0].strip()) if match else None


_RUNTIMES = (
    "libnvhpcatm.so",
    "libnvomp.so",
    "libnvcpumath.so",
    "libnvc.so",
    "libacchost.so",
    "libacccuda.so",
)


def library(sources: Sequence[str], flags: Sequence[str]) -> CompilerCall:
    """Return how nvc++ makes a library with OpenACC for the GPU of a machine."""
    return CompilerCall(
        argv=(
            *("{compiler}", "-O2", "-fPIC", "-shared", "-acc", "-gpu=cc{arch}"),
            *(*flags, "-I{folders}", "{sources}", "{abi}", "-o", "{output}"),
        ),
        runtimes=_RUNTIMES,
        install={"": "install NVIDIA's HPC SDK: https://developer.nvidia.com/hpc-sdk-downloads"},
    )


NVCXX = Family(
    name="nvc++",
    programs=re.compile(r"nvc\+\+"),
    parse=parse,
    runtimes=_RUNTIMES,
    install="install NVIDIA's HPC SDK: https://developer.nvidia.com/hpc-sdk-downloads",
    places=("/opt/nvidia/hpc_sdk/Linux_*/*/compilers/bin",),
    c_program=("nvc++", "nvc"),
    answers=r"(?m)^nvc\+\+ (?P<version>\d+\.\d+)-\d+\b",
)

TOOLCHAIN = Toolchain(
    name=NVCXX.name,
    compiles=(".cpp", ".cc", ".cxx", ".c++", ".C", ".c"),
    program=NVCXX,
    library=library,
    builtin=("host build",),
)
