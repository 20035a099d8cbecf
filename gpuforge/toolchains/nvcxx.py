"""nvc++: the C++ compiler of NVIDIA's HPC SDK.

Its objects bind to the runtimes of the very same SDK version, under names that a user's own link brings too: a wheel
may ship sources for it, never libraries made by it. Parsed from its documented output; it was not run here.
"""

from __future__ import annotations

import re

from packaging.version import Version

from gpuforge.toolchains.model import Family


def parse(output: str) -> tuple[Version, str] | None:
    """Read `nvc++ 24.7-0 64-bit target on x86-64 Linux -tp haswell` (the `-tp` is in the identity: it tunes for it)."""
    match = re.search(r"^nvc\+\+ (\d+\.\d+)-(\d+)\b[^\n]*", output, re.MULTILINE)
    return (Version(f"{match[1]}.post{match[2]}"), match[0].strip()) if match else None


NVCXX = Family(
    name="nvc++",
    programs=re.compile(r"nvc\+\+"),
    parse=parse,
    compiles=(".cpp", ".cc", ".cxx", ".c++", ".C", ".c"),
    runtimes=(
        "libnvhpcatm.so",
        "libnvomp.so",
        "libnvcpumath.so",
        "libnvc.so",
        "libacchost.so",
        "libacccuda.so",
    ),
    install="install NVIDIA's HPC SDK: https://developer.nvidia.com/hpc-sdk-downloads",
    places=("/opt/nvidia/hpc_sdk/Linux_*/*/compilers/bin",),
    c_program=("nvc++", "nvc"),
)
