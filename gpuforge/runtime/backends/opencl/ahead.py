"""Compiles OpenCL sources ahead of their first use, into the kernel cache."""

from __future__ import annotations

from pathlib import Path

from ...process import DriverError
from ...recipe import Recipe, UserToolchain
from ...userbuild.compilers import Absent, CompileInputs, Compiler
from ...userbuild.execute import Stopped
from ...values import Reason, Refused
from . import load
from .devices import Needs, devices


def find(toolchain: UserToolchain, here: CompileInputs, path: str) -> Compiler | Absent:
    """Return the driver of the first device that fits, or why there is none. `path` is ignored."""
    if here.extra:
        return Absent(toolchain, ("`compile` takes no sources of yours for it",))
    needs = Needs(toolchain.install.get("", ""), toolchain.devices, toolchain.extensions)
    found = devices(here.env, needs)
    if isinstance(found, Reason):
        return Absent(toolchain, () if found.kind == "not-installed" else (str(found),))
    return Compiler(toolchain.family, Path(found[0].name), found[0].driver)


def prepare(toolchain: UserToolchain, recipe: Recipe, here: CompileInputs) -> str:
    """Compile a toolchain's sources into the kernel cache, and return the device; raises Stopped."""
    try:
        return load.prepare(recipe.sources_of(toolchain), here.env)
    except (DriverError, Refused) as error:
        raise Stopped(str(error)) from error
