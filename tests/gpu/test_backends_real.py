"""The suite of tests/unit/test_backends_alike.py with the real driver, OpenCL's first device, and IREE's runtime.

What is missing on a machine is skipped; with OpenCL for the CPU and IREE, parts run without a GPU.
"""

import hashlib
import importlib.metadata
import json
from pathlib import Path

import pytest
import test_backends_alike as suite
from ptx_samples import HEAD
from ptx_samples import kernel_set as ptx_set
from set_samples import OPENCL_C, install_set

from gpuforge.runtime import KernelSet, probe

SAXPY = """
.visible .entry saxpy(.param .u64 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .u64 %rd<8>;
    .reg .u32 %r<2>;
    .reg .f32 %f<4>;
    .reg .pred %p;
    ld.param.u64 %rd1, [n];
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd2, [x];
    ld.param.u64 %rd3, [y];
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %rd4, %r1;
    setp.ge.u64 %p, %rd4, %rd1;
    @%p bra done;
    shl.b64 %rd5, %rd4, 2;
    cvta.to.global.u64 %rd6, %rd2;
    cvta.to.global.u64 %rd7, %rd3;
    add.u64 %rd6, %rd6, %rd5;
    add.u64 %rd7, %rd7, %rd5;
    ld.global.f32 %f2, [%rd6];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f3, %f1, %f2, %f3;
    st.global.f32 [%rd7], %f3;
done:
    ret;
}
"""
MLIR = """
func.func @saxpy(%a: f32, %x: tensor<?xf32>, %y: tensor<?xf32> {iree.abi.output = 0 : index}) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  %all = linalg.fill ins(%a : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  %product = arith.mulf %all, %x : tensor<?xf32>
  %sum = arith.addf %product, %y : tensor<?xf32>
  return %sum : tensor<?xf32>
}
"""
IMAGES = {
    "iree-cuda": ("cuda", {"arch": "compute_60", "isa": "7.6"}, "--iree-cuda-target=sm_60"),
    "iree-cpu": ("llvm-cpu", {"arch": "x86-64"}, "--iree-llvmcpu-target-cpu=generic"),
}


@pytest.fixture(params=["cuda", "opencl", "iree"])
def kernels(request: pytest.FixtureRequest, tmp_path: Path) -> KernelSet:
    """Return a set whose kernel `saxpy` is run by one back end."""
    if request.param == "cuda":
        machine = probe()
        if not machine.devices:
            pytest.skip(str(machine.problem))
        return ptx_set(tmp_path / "saxpy", HEAD + SAXPY)
    home = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "kernels")}
    if request.param == "opencl":
        cl = pytest.importorskip("pyopencl")
        try:
            devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
        except cl.Error as error:
            pytest.skip(f"OpenCL has no device here: {error}")
        if not devices:
            pytest.skip("OpenCL has no device here")
        made = install_set(tmp_path / "packages", OPENCL_C, cpu=False)
        return KernelSet(made / "kernels" / "ops", package="demo", env=home, driver="libnothing.so")
    return KernelSet(iree_set(tmp_path / "ops"), package="demo", env=home)


def iree_set(folder: Path) -> Path:
    compiler = pytest.importorskip("iree.compiler", reason="iree-base-compiler is not installed")
    pytest.importorskip("iree.runtime", reason="iree-base-runtime is not installed")
    folder.mkdir()
    modules = []
    for kind, (target, image, option) in IMAGES.items():
        data = compiler.compile_str(MLIR, target_backends=[target], extra_args=[option])
        (folder / f"{kind}.vmfb").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        modules.append(
            {"name": "saxpy", "source": "saxpy.mlir", "file": f"{kind}.vmfb", "sha256": digest,
             "images": [{"kind": kind, **image}], "kernels": []}
        )  # fmt: skip
    version = importlib.metadata.version("iree-base-compiler")
    index = {"schema": 1, "name": "ops", "toolkit": "", "install": "pip install iree-base-runtime",
             "toolchain": {"family": "iree", "version": version}, "modules": modules}  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index))
    return folder


backend = suite.backend
globals().update({name: test for name, test in vars(suite).items() if name.startswith("test_")})
