"""The extension: CUDA's kernel, and its registration with torch over the stable ABI, or over ATen's C++ interface."""

import os

import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

STABLE = os.environ.get("SCALED_ADD_ABI", "stable") == "stable"
wanted = os.environ.get("SCALED_ADD_TORCH") or torch.__version__
major, minor = (int(part) for part in wanted.split(".")[:2])
target = f"-DTORCH_TARGET_VERSION=0x{major:02x}{minor:02x}000000000000ULL"
flags = ["-O2", *([target, "-DTORCH_STABLE_ONLY", "-DUSE_CUDA"] if STABLE else [])]

extension = CUDAExtension(
    "scaled_add._C",
    ["csrc/stable.cpp" if STABLE else "csrc/aten.cpp", "csrc/kernel.cu"],
    extra_compile_args={"cxx": flags, "nvcc": flags},
    py_limited_api=True,
)
if STABLE:  # torch's C functions; c10 and c10_cuda have C++ functions only, which change with every release
    extension.libraries = ["torch_cpu", "torch_cuda", "cudart"]

setup(
    ext_modules=[extension],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
