"""g++: the GNU C++ compiler, the default for host code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.version import Version

from gpuforge.toolchains.family import CompilerCall, Family
from gpuforge.toolchains.toolchain import Toolchain


def parse(output: str) -> tuple[Version, str] | None:
    """Read `g++ (Debian 12.2.0-14+deb12u1) 12.2.0`; the identity does not contain the name of the program."""
    first = output.partition("\n")[0].strip()
    match = re.fullmatch(r"\S+ (\(.*\)) (\d+(?:\.\d+)+)(?: .*)?", first)
    if match is None or "Free Software Foundation" not in output:
        return None
    return Version(match[2]), f"g++ {first.partition(' ')[2]}"


_INSTALL = {
    "debian": "apt-get install g++",
    "fedora": "dnf install gcc-c++",
    "suse": "zypper install gcc-c++",
    "arch": "pacman -S gcc",
    "alpine": "apk add g++ musl-dev",
    "": "install g++ with the system's packages",
}
_INSTALL_OFFLOAD = {
    "debian": "apt-get install g++-12 gcc-12-offload-nvptx libgomp-plugin-nvptx1",
    "fedora": "dnf install gcc-c++ gcc-offload-nvptx libgomp-offload-nvptx",
    "suse": "zypper install gcc-c++ cross-nvptx-gcc12",
    "": "install g++ and its offload compiler for nvptx",
}
# Without it, nvptx-as checks its output with the machine's ptxas, which may be too new for the architecture.
_NO_PTXAS = "-foffload-options=nvptx-none=-Wa,--no-verify"


def library(sources: Sequence[str], flags: Sequence[str]) -> CompilerCall:
    """Return how g++ makes a library; with OpenACC or OpenMP offloading in `flags`, of GPU code, too.

    A g++ without its offload compiler silently leaves out the GPU code, so the call requires the target.
    """
    openmp = any(flag.startswith(("-fopenmp", "-fopenacc")) for flag in flags)
    offload = "-fopenacc" in flags or (openmp and any(flag.startswith("-foffload") for flag in flags))
    return CompilerCall(
        argv=(
            *("{compiler}", "-O2", "-fPIC", "-shared"),
            *([_NO_PTXAS] if offload else []),
            *(*flags, "-I{folders}", "{sources}", "{abi}", "-o", "{output}"),
        ),
        runtimes=("libgomp.so.1",) if openmp else (),
        install=_INSTALL_OFFLOAD if offload else _INSTALL,
        offload="nvptx-none" if offload else "",
    )


GXX = Family(
    name="g++",
    programs=re.compile(r"g\+\+(?:-(?P<version>[\d.]+))?"),
    parse=parse,
    runtimes=("libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1"),
    install="install it with the system's packages: apt install g++, dnf install gcc-c++",
    places=("/opt/rh/gcc-toolset-*/root/usr/bin",),
    c_program=("g++", "gcc"),
    answers=r"^\S+ \(.*\) (?P<version>\d+(?:\.\d+)+)(?: .*)?\n(?=[\s\S]*Free Software Foundation)",
)

TOOLCHAIN = Toolchain(
    name=GXX.name,
    compiles=(".cpp", ".cc", ".cxx", ".c++", ".C", ".c"),
    program=GXX,
    library=library,
    builtin=("host build", "fallback library"),
)
