"""Reads a project's sources and Meson files: CUDA's code, includes, libraries, and pragmas for GPUs."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

from gpuforge.project.files import Files, Seen, Where
from gpuforge.toolkits import pins
from gpuforge.toolkits.providers import pypi

_CODE = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".pyx", ".pxd", ".cu")
_FORTRAN = (".f90", ".f", ".f95", ".f03")
_INCLUDE = r"^[ \t]*#[ \t]*include[ \t]*[<\"]([\w./+-]{1,200})[>\"]"
# A kernel, or the headers of templates that become kernels.
_KERNEL = r"\b__global__\b|<<<|^[ \t]*#[ \t]*include[ \t]*[<\"](?:cutlass|cute|cub|thrust)/"
_DEFINED = r"^(?![ \t]*#).*\b__global__\b"
_LIBRARY = r"[\"'](lib[a-zA-Z_]{2,40}\.so(?:\.\d{1,4}){0,3})[\"']"
_PRAGMA = r"^[ \t]*(?:#[ \t]*pragma[ \t]+|!\$)(acc\b|omp[ \t]+(?:target|declare[ \t]+target))"
NATIVE = r"-m(?:arch|cpu|tune)=native"
_MESON_CUDA = (
    r"\b(?:project|add_languages)\s*\([^)]*'cuda'|\bdependency\s*\(\s*'cuda'|import\('unstable-cuda'\)"
)
_MESON_COMPILES = r"\b(extension_module|shared_library|shared_module|static_library|executable)\s*\("
_MESON_RUN = r"\.run\s*\(.*(-m(?:avx|sse|fma|bmi)\w*)"
_MESON_DEPENDENCY = r"\bdependency\s*\(\s*'([\w.+-]{1,60})'(?![^)]*required\s*:\s*false)"

# What every toolkit has, so that no manifest names it.
OF_EVERY_TOOLKIT = frozenset(
    {"cudart", "cuda_driver", "cudadevrt", "toolkit", "nvcc", "cuda", "opencl", "culibos"}
)
# CMake's names of targets and packages that differ from the library's:
# https://cmake.org/cmake/help/latest/module/FindCUDAToolkit.html
_ALIASES = {
    "nvtoolsext": "nvtx",
    "nvtx3": "nvtx",
    "cublaslt": "cublas",
    "cufftw": "cufft",
    "cudnn_frontend": "cudnn",
}


@dataclass(frozen=True, slots=True)
class Sources:
    """The facts in the source files, and in the Meson files of a project that meson-python builds."""

    cuda: tuple[str, ...]  # names of .cu files
    kernel: Where | None  # the first `__global__` in one, or in a header
    includes: tuple[Seen, ...]  # each header once
    openacc: Where | None
    openmp_target: Where | None
    opened: tuple[Seen, ...]  # shared libraries that Python files name: "libcufft.so.12"
    meson_compiles: bool
    meson_cuda: Where | None
    meson_packages: tuple[Seen, ...]  # dependency('zlib')
    meson_native: Where | None  # -march=native
    meson_run: Where | None  # a program that is run with -mavx2


def read(files: Files, *, meson: bool) -> Sources:
    """Read all source files that the build may compile, and the Meson files."""
    code = files.ending(*_CODE, *_FORTRAN)
    gpu = [name for name in code if name.endswith((".cu", ".cuh"))]
    pragmas = {seen.text[:3].lower(): seen.where for seen in reversed([*_matches(files, _PRAGMA, code)])}
    # a package's Python; setup.py and its helpers run in the build
    python = [name for name in files.ending(".py") if "/" in name]
    built = files.ending("meson.build") if meson else []
    return Sources(
        cuda=tuple(name for name in gpu if name.endswith(".cu")),
        kernel=next(
            (seen.where for seen in chain(_matches(files, _KERNEL, gpu), _matches(files, _DEFINED, code))),
            None,
        ),
        includes=_first(_matches(files, _INCLUDE, code)),
        openacc=pragmas.get("acc"),
        openmp_target=pragmas.get("omp"),
        opened=_first(_matches(files, _LIBRARY, python)),
        meson_compiles=any(_matches(files, _MESON_COMPILES, built)),
        meson_cuda=next((seen.where for seen in _matches(files, _MESON_CUDA, built)), None),
        meson_native=next((seen.where for seen in _matches(files, NATIVE, built)), None),
        meson_run=next((seen.where for seen in _matches(files, _MESON_RUN, built)), None),
        meson_packages=_first(_matches(files, _MESON_DEPENDENCY, built), in_order=True),
    )


def has_kernel(files: Files, name: str) -> bool:
    """Return whether a CUDA source has a kernel, itself, by its headers, or perhaps by others' CUDA code."""
    pending, seen = [name], {name}
    while pending:
        file = pending.pop()
        text = files.text(file)
        if re.search(_KERNEL, text, re.MULTILINE):
            return True
        for header in re.findall(_INCLUDE, text, re.MULTILINE):
            found = [each for each in files.names if f"/{each}".endswith(f"/{posixpath.normpath(header)}")]
            beside = posixpath.normpath(posixpath.join(posixpath.dirname(file), header))
            found = [beside] if beside in files.names else found
            if header.endswith(".cuh") and not found:
                return True
            pending += [each for each in found if each not in seen]
            seen.update(found)
    return False


def _matches(files: Files, pattern: str, names: list[str]) -> Iterator[Seen]:
    """Yield the only group of a pattern, or else what it matches, in these files."""
    for name in names:
        text = files.text(name)
        if name.endswith("meson.build"):
            text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
        line, at = 1, 0
        for match in re.finditer(pattern, text, re.MULTILINE):
            start = match.start(match.re.groups)  # of the only group, or of the match
            line, at = line + text.count("\n", at, start), start
            yield Seen(match[match.re.groups], Where(name, line))


def _first(found: Iterator[Seen], *, in_order: bool = False) -> tuple[Seen, ...]:
    """Return each text at its first place, by its name or in their order."""
    places: dict[str, Where] = {}
    for seen in found:
        places.setdefault(seen.text, seen.where)
    return tuple(Seen(*each) for each in (places.items() if in_order else sorted(places.items())))


@cache
def names() -> frozenset[str]:
    """Return the libraries that `[cuda] libraries` can name."""
    return frozenset((*pypi.libraries(pypi.minors()[0]), *pins.beside_toolkits()))


def library(target: str) -> str:
    """Return the library of a CMake target or a linker's option: "cufft" of cufft_static."""
    name = re.sub(r"_static(_nocallback)?$", "", target).lower()
    name = "npp" if name.startswith("npp") else name
    return _ALIASES.get(name, name)


def is_lacking(target: str) -> bool:
    """Return whether a static library is one of CUDA's that NVIDIA's wheels do not have."""
    return target.endswith("_static") and library(target) in names() - OF_EVERY_TOOLKIT
