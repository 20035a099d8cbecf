"""The libraries of `[cuda] libraries`, by the names that builds link them by."""

from __future__ import annotations

import re
from functools import cache

from gpuforge.toolkits import pins
from gpuforge.toolkits.providers import pypi

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


@cache
def names() -> frozenset[str]:
    """Return the libraries that a manifest can name."""
    return frozenset((*pypi.libraries(pypi.minors()[0]), *pins.beside_toolkits()))


def library(target: str) -> str:
    """Return the library of a CMake target or a linker's option: "cufft" of cufft_static."""
    name = re.sub(r"_static(_nocallback)?$", "", target).lower()
    name = "npp" if name.startswith("npp") else name
    return _ALIASES.get(name, name)


def is_lacking(target: str) -> bool:
    """Return whether a static library is one of CUDA's that NVIDIA's wheels do not have."""
    return target.endswith("_static") and library(target) in names() - OF_EVERY_TOOLKIT
