"""Errors inside kernels: an exception with the element, the line and the kernel, and nothing is written back."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuforge.package.contents import ERRORS_H
from gpuforge.runtime.backends.system import load
from gpuforge.runtime.kernel_errors import Checked, KernelError
from gpuforge.runtime.signature import Entry, Parameter

HEADERS = ERRORS_H.parent
OPENCL = """#include "gpuforge_errors.h"
kernel void root(global const float *x, global float *y, ulong n, GPUFORGE_ERRORS errors)
{
    ulong i = get_global_id(0);
    GPUFORGE_BOUNDS(errors, i, n);
    y[i] = 0;
    GPUFORGE_REQUIRE(errors, x[i] >= 0, 1, i);
    y[i] = sqrt(x[i]);
}
"""
CPU = """#include "gpuforge_errors.h"
#include <cmath>
extern "C" void root(const float *x, float *y, unsigned long n, GPUFORGE_ERRORS errors)
{
    for (unsigned long i = 0; i < 4; ++i) {
    GPUFORGE_BOUNDS(errors, i, n); y[i] = 0;
    GPUFORGE_REQUIRE(errors, x[i] >= 0, 1, i);
    y[i] = std::sqrt(x[i]); }
}
"""
CUDA = """#include "gpuforge_errors.h"
extern "C" __global__ void root(const float *x, float *y, unsigned long n, GPUFORGE_ERRORS errors)
{
    unsigned long i = blockIdx.x * blockDim.x + threadIdx.x;
    GPUFORGE_BOUNDS(errors, i, n);
    y[i] = 0;
    GPUFORGE_REQUIRE(errors, x[i] >= 0, 1, i);
    y[i] = sqrtf(x[i]);
}
"""
# For a clang++ that does not know this toolkit's headers.
CLANGS_OWN = """#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#include <__clang_cuda_builtin_vars.h>
__device__ inline int atomicCAS(int *at, int before, int after) { return __nvvm_atom_cas_gen_i(at, before, after); }
extern "C" __device__ inline float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
"""


@pytest.fixture(params=["opencl", "cpu"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Checked:
    if request.param == "cpu":
        (tmp_path / "root.cpp").write_text(CPU)
        command = ["g++", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{HEADERS}", "root.cpp", "-o", "root.so"]
        subprocess.run(command, check=True, cwd=tmp_path)
        types = ("const float *", "float *", "unsigned long", "int *")
        entry = Entry("root", "root", tuple(Parameter(each, 8) for each in types))
        return Checked(load(str(tmp_path / "root.so"), entry), {1: "no root of a negative number"})
    request.getfixturevalue("pocl")
    import pyopencl

    from gpuforge.runtime.backends.opencl.kernel import OpenClKernel, context_of

    context = context_of(pyopencl.get_platforms()[0].get_devices()[0])
    program: Any = pyopencl.Program(context.context, OPENCL).build(
        ["-cl-kernel-arg-info", f"-I{HEADERS}"], cache_dir=False
    )
    return Checked(OpenClKernel("root", "k.cl", context, program), {1: "no root of a negative number"})


@pytest.mark.thorough
def test_without_an_error_the_result_is_written(root):
    y = np.full(4, 7, "f4")
    root.launch(1, 4, np.array([0, 1, 4, 9], "f4"), y, np.uint64(4))
    assert y.tolist() == [0, 1, 2, 3]


@pytest.mark.thorough
def test_an_error_has_its_place_and_nothing_is_written(root):
    y = np.full(4, 7, "f4")
    with pytest.raises(
        KernelError, match=r"^element 2: no root of a negative number \(kernel root, "
    ) as caught:
        root.launch(1, 4, np.array([0, 1, -4, 9], "f4"), y, np.uint64(4))
    error = caught.value
    assert (error.kind, error.element, error.line, error.kernel) == (1, 2, 7, "root")
    assert y.tolist() == [7] * 4


@pytest.mark.thorough
def test_an_index_out_of_bounds_is_found_before_it_is_used(root):
    y = np.full(4, 7, "f4")
    with pytest.raises(KernelError, match=r"^element 3: the index is out of bounds"):
        root.launch(1, 4, np.ones(4, "f4"), y, np.uint64(3))
    assert y.tolist() == [7] * 4


@pytest.mark.thorough
@pytest.mark.toolkit
@pytest.mark.parametrize(
    ("argv", "before"),
    [
        (["nvcc", "-arch=sm_75", "-Werror=all-warnings", "-ptx"], ""),
        (
            [
                *("clang++", "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-S"),
                *("--cuda-gpu-arch=sm_75", "-Wall", "-Werror", "-Wno-unknown-cuda-version"),
            ],
            CLANGS_OWN,
        ),
    ],
    ids=["nvcc", "clang++"],
)
def test_the_header_compiles_for_nvidias_gpus(tmp_path, argv, before):
    """NVRTC compiles it in tests/integration/test_compilers_from_pypi.py."""
    if not shutil.which(argv[0]):
        pytest.skip(f"{argv[0]} is not installed")
    (tmp_path / "root.cu").write_text(before + CUDA)
    subprocess.run([*argv, f"-I{HEADERS}", "root.cu", "-o", "root.ptx"], check=True, cwd=tmp_path)
    assert "cas.b32" in (tmp_path / "root.ptx").read_text()
