"""clang++: the LLVM C++ compiler, for host code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from packaging.version import Version

from gpuforge.toolchains.family import CompilerCall, Family
from gpuforge.toolchains.toolchain import Toolchain


def parse(output: str) -> tuple[Version, str] | None:
    """Read `Debian clang version 19.1.7 (3)` and its `Target:` line; None for Apple's and NVIDIA's clangs."""
    match = re.search(r"^(?:(?!Apple).)*clang version (\d+\.\d+\.\d+)[^\n]*", output, re.MULTILINE)
    if match is None:
        return None
    target = re.search(r"^Target: (.*)$", output, re.MULTILINE)
    return Version(match[1]), match[0].strip() + (f"; {target[1].strip()}" if target else "")


_INSTALL = {
    "debian": "apt-get install clang",
    "fedora": "dnf install clang",
    "suse": "zypper install clang",
    "arch": "pacman -S clang",
    "": "install clang with the system's packages",
}
_CUDA = ("--cuda-gpu-arch=sm_{arch}", "--cuda-path={cuda}")
_CUDART = ("-L{cuda}/lib64", "-L{cuda}/lib", "-Wl,-rpath,{cuda}/lib64", "-Wl,-rpath,{cuda}/lib", "-lcudart")


def library(sources: Sequence[str], flags: Sequence[str]) -> CompilerCall:
    """Return how clang++ makes a library; if a source is named `.cu`, of CUDA with a toolkit's libraries."""
    cuda = any(PurePosixPath(source).suffix == ".cu" for source in sources)
    openmp = any(flag.startswith("-fopenmp") for flag in flags)
    return CompilerCall(
        argv=(
            *("{compiler}", "-O2", "-fPIC", "-shared"),
            *(_CUDA if cuda else ()),
            *(*flags, "-I{folders}", "{abi}", "{sources}", "-o", "{output}"),
            *(_CUDART if cuda else ()),
        ),
        runtimes=(*(["libomp.so.5"] if openmp else []), *(["libcudart.so"] if cuda else [])),
        install=_INSTALL,
    )


CLANGXX = Family(
    name="clang++",
    programs=re.compile(r"clang\+\+(?:-(?P<version>[\d.]+))?"),
    parse=parse,
    runtimes=("libstdc++.so.6", "libgcc_s.so.1", "libomp.so.5"),
    install="install it with the system's packages: apt install clang, dnf install clang",
    places=("/usr/lib/llvm-*/bin",),
    c_program=("clang++", "clang"),
    answers=r"^(?:(?!Apple).)*clang version (?P<version>\d+\.\d+\.\d+)",
)

TOOLCHAIN = Toolchain(
    name=CLANGXX.name,
    compiles=(".cpp", ".cc", ".cxx", ".c++", ".C", ".c"),
    program=CLANGXX,
    library=library,
    builtin=("host build", "fallback library"),
)
