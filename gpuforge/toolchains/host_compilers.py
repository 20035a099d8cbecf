"""The compilers of host code: g++, the default; clang++; and nvc++ of NVIDIA's HPC SDK.

nvc++'s objects bind to the runtimes of the same SDK version, under names that a user's own link brings, too: a wheel
may contain what it made, but not these runtimes. It was written from the documented output, and not run here.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from packaging.version import Version

from gpuforge.toolchains.toolchain import CompilerCall, Family, Toolchain


def _of_host(program: Family, library: Callable[[Sequence[str], Sequence[str]], CompilerCall]) -> Toolchain:
    return Toolchain(
        name=program.name,
        compiles=(".cpp", ".cc", ".cxx", ".c++", ".C", ".c"),
        program=program,
        library=library,
        builtin=("host build", "fallback library"),
    )


def parse_gxx(output: str) -> tuple[Version, str] | None:
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


def gxx_library(sources: Sequence[str], flags: Sequence[str]) -> CompilerCall:
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
    parse=parse_gxx,
    runtimes=("libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1"),
    install="install it with the system's packages: apt install g++, dnf install gcc-c++",
    places=("/opt/rh/gcc-toolset-*/root/usr/bin",),
    c_program=("g++", "gcc"),
    answers=r"^\S+ \(.*\) (?P<version>\d+(?:\.\d+)+)(?: .*)?\n(?=[\s\S]*Free Software Foundation)",
)

GXX_TOOLCHAIN = replace(_of_host(GXX, gxx_library), no_libraries_of=".cu")


def parse_clangxx(output: str) -> tuple[Version, str] | None:
    """Read `Debian clang version 19.1.7 (3)` and its `Target:` line; None for Apple's and NVIDIA's clangs."""
    match = re.search(r"^(?:(?!Apple).)*clang version (\d+\.\d+\.\d+)[^\n]*", output, re.MULTILINE)
    if match is None:
        return None
    target = re.search(r"^Target: (.*)$", output, re.MULTILINE)
    return Version(match[1]), match[0].strip() + (f"; {target[1].strip()}" if target else "")


_INSTALL_CLANG = {
    "debian": "apt-get install clang",
    "fedora": "dnf install clang",
    "suse": "zypper install clang",
    "arch": "pacman -S clang",
    "": "install clang with the system's packages",
}
_CUDA = ("--cuda-gpu-arch=sm_{arch}", "--cuda-path={cuda}")
_CUDART = ("-L{cuda}/lib64", "-L{cuda}/lib", "-Wl,-rpath,{cuda}/lib64", "-Wl,-rpath,{cuda}/lib", "-lcudart")


# Debian's clang++ 19 looks for OpenMP's device code as bitcode only where it is not; at the link it finds the archive.
_OFFLOAD = ("--offload-arch=sm_{arch}", "--cuda-path={cuda}", "-foffload-lto")
_INSTALL_CLANG_OFFLOAD = {
    "debian": "apt-get install clang-16 clang-tools-16 libomp-16-dev, and a CUDA toolkit",
    "fedora": "dnf install clang libomp-devel, and a CUDA toolkit",
    "": "install clang 16 or later with OpenMP, and a CUDA toolkit",
}


def clangxx_library(sources: Sequence[str], flags: Sequence[str]) -> CompilerCall:
    """Return how clang++ makes a library; if a source is named `.cu`, of CUDA with a toolkit's libraries.

    With `-fopenmp -fopenmp-targets=nvptx64` it compiles OpenMP's target regions for the GPU, by the option of clang 15
    and later that names the architecture; 16 is the first that knows sm_90: https://openmp.llvm.org/SupportAndFAQ.html
    """
    cuda = any(PurePosixPath(source).suffix == ".cu" for source in sources)
    openmp = any(flag.startswith("-fopenmp") for flag in flags)
    offload = any(flag.startswith("-fopenmp-targets=nvptx64") for flag in flags)
    flags = [flag for flag in flags if not flag.startswith("-fopenmp-targets=nvptx64")]
    return CompilerCall(
        argv=(
            *("{compiler}", "-O2", "-fPIC", "-shared"),
            *(_CUDA if cuda else _OFFLOAD if offload else ()),
            *(*flags, "-I{folders}", "{abi}", "{sources}", "-o", "{output}"),
            *(_CUDART if cuda else ()),
        ),
        runtimes=(
            *(["libomp.so.5"] if openmp else []),
            *(["libomptarget.so"] if offload else []),
            *(["libcudart.so"] if cuda else []),
        ),
        install=_INSTALL_CLANG_OFFLOAD if offload else _INSTALL_CLANG,
        version=">=16" if offload else "",
    )


CLANGXX = Family(
    name="clang++",
    programs=re.compile(r"clang\+\+(?:-(?P<version>[\d.]+))?"),
    parse=parse_clangxx,
    runtimes=("libstdc++.so.6", "libgcc_s.so.1", "libomp.so.5"),
    install="install it with the system's packages: apt install clang, dnf install clang",
    places=("/usr/lib/llvm-*/bin",),
    c_program=("clang++", "clang"),
    answers=r"^(?:(?!Apple).)*clang version (?P<version>\d+\.\d+\.\d+)",
)

CLANGXX_TOOLCHAIN = _of_host(CLANGXX, clangxx_library)


def parse_nvcxx(output: str) -> tuple[Version, str] | None:
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


def nvcxx_library(sources: Sequence[str], flags: Sequence[str]) -> CompilerCall:
    """Return how nvc++ makes a library with OpenACC for the GPU of a machine."""
    return CompilerCall(
        argv=(
            *("{compiler}", "-O2", "-fPIC", "-shared", "-acc", "-gpu=cc{arch}"),
            *(*flags, "-I{folders}", "{sources}", "{abi}", "-o", "{output}"),
        ),
        runtimes=_RUNTIMES,
        joins_archs=",cc",
        install={"": "install NVIDIA's HPC SDK: https://developer.nvidia.com/hpc-sdk-downloads"},
    )


NVCXX = Family(
    name="nvc++",
    programs=re.compile(r"nvc\+\+"),
    parse=parse_nvcxx,
    runtimes=_RUNTIMES,
    install="install NVIDIA's HPC SDK: https://developer.nvidia.com/hpc-sdk-downloads",
    places=("/opt/nvidia/hpc_sdk/Linux_*/*/compilers/bin",),
    c_program=("nvc++", "nvc"),
    answers=r"(?m)^nvc\+\+ (?P<version>\d+\.\d+)-\d+\b",
)

NVCXX_TOOLCHAIN = _of_host(NVCXX, nvcxx_library)
