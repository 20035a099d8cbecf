"""Compiles OpenCL sources ahead of their first use, into the kernel cache."""

from __future__ import annotations

from pathlib import Path

from ..errors import DriverError
from ..index import Refused
from ..opencl import load
from ..opencl.devices import Needs, devices
from ..reason import Reason
from ..recipe import UserToolchain
from ..sources import OPENCL
from .compilers import Absent, Compiler
from .inputs import CompileInputs
from .outcome import Stopped
from .recipe import Recipe, sources_of


def find(toolchain: UserToolchain, here: CompileInputs) -> Compiler | Absent:
    """Return the driver of the first device that fits, or why there is none."""
    if here.extra:
        return Absent(toolchain, ("`compile` takes no sources of yours for it",))
    needs = Needs(toolchain.install.get("", ""), toolchain.devices, toolchain.extensions)
    found = devices(here.env, needs)
    if isinstance(found, Reason):
        return Absent(toolchain, (str(found),))
    return Compiler(OPENCL, Path(found[0].name), found[0].driver)


def prepare(recipe: Recipe, here: CompileInputs) -> str:
    """Compile the OpenCL sources into the kernel cache, and return for which device; raises Stopped."""
    try:
        return load.prepare(sources_of(recipe, OPENCL), here.env)
    except (DriverError, Refused) as error:
        raise Stopped(str(error)) from error
