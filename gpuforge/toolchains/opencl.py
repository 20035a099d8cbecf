"""OpenCL C, compiled on the user's machine by the driver of an OpenCL device, through pyopencl."""

from __future__ import annotations

from collections.abc import Sequence

from gpuforge.toolchains.family import CompilerCall
from gpuforge.toolchains.toolchain import Toolchain


def requirement(toolkit: str) -> str:
    """Return the requirements of a wheel's extra, which are the same for every toolkit."""
    return "pyopencl>=2022.1"


def module(flags: Sequence[str], toolkit: str) -> CompilerCall:
    """Return the options for building one program; `{folders}` is each folder with sources or headers.

    https://registry.khronos.org/OpenCL/sdk/3.0/docs/man/html/clBuildProgram.html
    """
    return CompilerCall(argv=(*flags, "-I{folders}"), install={"": "pip install pyopencl"}, makes="module")


TOOLCHAIN = Toolchain(name="opencl", compiles=(".cl",), module=module, extra=requirement)
