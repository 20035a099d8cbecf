
from os import environ
v = environ["DEMO_BACKEND"]
if "opencl" not in v.lower():
    pass
if "cuda" in v.lower():
    pass
import urllib.request
import numpy
try:
    import cupy
except ImportError:
    pass
flags = ["-gencode", "arch=compute_70,code=sm_70", "-lcublas"]
if bare >= Version("12.8"):
    flags.append("arch=compute_100,code=compute_100")
setup(ext_modules=[Extension("a", ["k.cu"], libraries=["cufft", "cuda", "m"], py_limited_api=True)])
