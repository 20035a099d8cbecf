
import os
import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

if os.getenv("FORCE_ONLY_CPU", "0") == "1":
    pass
force = os.environ.get("FORCE_CUDA", "0")
if force == "1":
    sources = ["csrc/op.cpp", "csrc/op.cu"]
open("ran", "w")
setup(
    name="demo-op",
    version="1.0",
    python_requires=">=3.10",
    ext_modules=[CUDAExtension("demo_op._C", sources)],
    cmdclass={"build_ext": BuildExtension},
)
