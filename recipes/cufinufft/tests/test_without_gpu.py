"""What the wheel promises where there is no GPU: it loads, with the CUDA libraries that it declares, and says so."""

from __future__ import annotations

import ctypes
import os
from importlib.metadata import packages_distributions
from pathlib import Path

import cufinufft
import numpy as np
import pytest
from cufinufft._cufinufft import NufftOpts, _default_opts

SITE = Path(cufinufft.__file__).parents[1]
LIBRARIES = {  # of each CUDA major, where NVIDIA's wheels have them
    "cufinufft-cu12": ("nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cufft/lib/libcufft.so.11"),
    "cufinufft-cu13": ("nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcufft.so.12"),
}


def loaded(name: str) -> set[str]:
    """The files of this process whose names begin so, from where packages are installed."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {Path(line.split()[-1]) for line in lines if f"/{name}" in line}
    return {path.relative_to(SITE).as_posix() if SITE in path.parents else str(path) for path in paths}


def test_each_cuda_library_is_there_once_and_comes_from_pip() -> None:
    (distribution,) = packages_distributions()["cufinufft"]
    cudart, cufft = LIBRARIES[distribution.replace("_", "-")]
    assert loaded("libcudart") == {cudart}
    assert loaded("libcufft.") == {cufft}


def test_the_library_answers() -> None:
    options = NufftOpts()
    _default_opts(ctypes.byref(options))
    assert (options.gpu_method, options.gpu_device_id) == (0, 0)


@pytest.mark.skipif(os.environ.get("CUDA_VISIBLE_DEVICES") != "", reason="a GPU may be there")
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the plan's destructor fails too
def test_a_plan_without_a_gpu_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"^Error creating plan\.$"):
        cufinufft.Plan(1, (8,), dtype=np.complex64)
