"""PoCL, the OpenCL device of the tests. PyPI's newest (3.0, LLVM 14) does not compile for newer CPUs, such as Zen 5."""

from functools import cache

import pytest


def needed() -> None:
    """Skip a test where there is no PoCL, or where it does not know the processor."""
    pytest.importorskip("pyopencl", reason="the test extra brings pyopencl and PoCL on x86-64 Linux alone")
    if problem := _problem():
        pytest.skip(f"PoCL compiles nothing for this processor: {problem}")


@cache
def _problem() -> str:
    import pyopencl

    (device,) = pyopencl.get_platforms()[0].get_devices()
    program = pyopencl.Program(pyopencl.Context([device]), "kernel void nothing(global int *a) {}")
    try:
        program.build(cache_dir=False)
    except pyopencl.RuntimeError as error:
        return next((line for line in str(error).splitlines() if line.startswith("error:")), str(error))
    return ""
