"""nvcc, NVIDIA's CUDA compiler, and its command line for one fatbin of one source."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from packaging.version import Version

from gpuforge.cuda.targets import Target
from gpuforge.cuda.version import minor_of
from gpuforge.toolchains.toolchain import CompilerCall, Family, Toolchain


def parse(output: str) -> tuple[Version, str] | None:
    """Read `Cuda compilation tools, release 13.0, V13.0.88` and the `Build` line after it."""
    match = re.search(r"^Cuda compilation tools, release [\d.]+, V([\d.]+)$", output, re.MULTILINE)
    if match is None:
        return None
    build = re.search(r"^Build \S+$", output, re.MULTILINE)
    return Version(match[1]), match[0] + (f"; {build[0]}" if build else "")


def toolkit_version(described: Any, compiler: Version | None) -> str:
    """Return a toolkit's version, as exactly as it is known: "13.0.2" of its version.json, or its compiler's "13.0".

    `described` is the content of version.json, which only NVIDIA's installers write; "" if neither is known.
    """
    try:
        return str(described["cuda"]["version"])
    except (KeyError, TypeError):
        return minor_of(str(compiler)) if compiler else ""


_INSTALL = {
    "debian": "apt-get install nvidia-cuda-toolkit (non-free), or NVIDIA's own packages: "
    "https://developer.nvidia.com/cuda-downloads",
    "": "install NVIDIA's CUDA toolkit: https://developer.nvidia.com/cuda-downloads",
}


def library(sources: Sequence[str], flags: Sequence[str]) -> CompilerCall:
    """Return how nvcc makes a library for the GPU of a machine, linked with the toolkit's shared libcudart."""
    return CompilerCall(
        argv=(
            *("{compiler}", "-O2", "-Xcompiler=-fPIC", "-shared", "-cudart=shared", "-arch=sm_{arch}"),
            *("-Xlinker=-rpath={cuda}/lib64", "-Xlinker=-rpath={cuda}/lib"),
            *(*flags, "-I{folders}", "{sources}", "{abi}", "-o", "{output}"),
        ),
        runtimes=("libcudart.so",),
        install=_INSTALL,
    )


def module(flags: Sequence[str], toolkit: str) -> CompilerCall:
    """Return how nvcc makes machine code of one source for the GPU of a machine, for the driver to load."""
    return CompilerCall(
        argv=(
            *("{compiler}", "-cubin", "-std=c++17", "-arch=sm_{arch}"),
            *(*flags, "-I{folders}", "{sources}", "-o", "{output}"),
        ),
        install=_INSTALL,
        makes="module",
    )


NVCC = Family(
    name="nvcc",
    programs=re.compile(r"nvcc"),
    parse=parse,
    runtimes=("libcudart.so",),
    install='let gpuforge fetch CUDA 13 from PyPI (toolkit = "13.0"), or install NVIDIA\'s CUDA toolkit',
    answers=r"(?m)^Cuda compilation tools, release [\d.]+, V(?P<version>[\d.]+)$",
    places=("/usr/local/cuda/bin", "/usr/local/cuda-*/bin", "/opt/cuda/bin"),
)

TOOLCHAIN = Toolchain(
    name="nvcc",
    compiles=(".cu",),
    program=NVCC,
    library=library,
    module=module,
    of_toolkit=True,
    builtin=("fallback library", "fallback module"),
)


def images(targets: Iterable[Target]) -> str:
    """Return the targets as a text for people: "sm_80 sm_90 PTX 90"."""
    return " ".join(each.arch.sm if each.real else f"PTX {each.arch.number}" for each in targets)


def library_argv(
    nvcc: str,
    *,
    sources: Sequence[str],
    output: str,
    targets: Sequence[Target],
    cudart: Literal["shared", "static"],
    host: str,
    includes: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the argv that compiles sources into a shared library with host and device code, like `module_argv`.

    By default, nvcc links libcudart statically, also if the rest of the wheel does not, and its temporary files leave
    random names in the symbol table.
    """
    return (
        *(nvcc, "-shared", "-O2", "-std=c++17", "-Xcompiler=-fPIC", f"-cudart={cudart}", f"-ccbin={host}"),
        "--objdir-as-tempdir",
        *(argument for target in targets for argument in target.gencode),
        *(f"-I{folder}" for folder in includes),
        *flags,
        *("-o", output, *sources),
    )


def module_argv(
    nvcc: str,
    *,
    source: str,
    output: str,
    targets: Sequence[Target],
    host: str | None = None,
    includes: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the argv that compiles one source into one fatbin: device code only, for the driver to load.

    `nvcc`, `source`, `output`, `host` (the host compiler, used to preprocess) and `includes` are paths and may contain
    placeholders. The bytes of the result depend on the compilers, the arguments, the included files, and the source's
    absolute path, which is part of the names of static variables and `__FILE__`: compile it at the same path each time.
    They do not depend on the working directory, the output's name, TMPDIR, the files' times or the toolkit's folder
    (seen with 13.0, also with -rdc=true).
    """
    return (
        nvcc,
        "-fatbin",
        "-std=c++17",
        *([f"-ccbin={host}"] if host else []),
        *(argument for target in targets for argument in target.gencode),
        *(f"-I{folder}" for folder in includes),
        *flags,
        "-o",
        output,
        source,
    )
