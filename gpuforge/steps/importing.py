"""Import the package of an installed wheel, and report what is missing if that fails."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuforge.cuda import libraries
from gpuforge.errors import ActionError
from gpuforge.steps import loaded_cuda
from gpuforge.steps.child import failure, last_line, run
from gpuforge.steps.machine_cuda import NONE, MachineCuda


@dataclass(frozen=True, slots=True)
class Imported:
    """How long the import of a package took, or the CUDA library whose absence made it fail."""

    seconds: float | None
    lacks: str = ""


def imported(
    package: str, python: Path, folder: Path, machine: MachineCuda = NONE, *, optional: bool = False
) -> Imported:
    """Import the package, isolated from the caller's folder and variables; raises ActionError.

    `optional`: it may fail if a CUDA library is absent.
    """
    ran = run([str(python), "-I", "-c", f"import {package}"], folder, os.environ)
    line = last_line(ran.lines) if ran.status else ""
    if optional and (lacking := _absent(line)) and libraries.is_toolkit_file(lacking):
        return Imported(None, lacking)
    if ran.status:
        raise ActionError.of(
            failure(f"import {package}", ran.status, line), hint=import_hint(package, line, machine)
        )
    return Imported(round(ran.seconds, 3))


def also_imported(modules: Sequence[str], python: Path, folder: Path, driver: Path | None) -> None:
    """Import further modules, each in its own process; `driver` is a folder with a stub of the driver's library."""
    environ = {**os.environ, **({"LD_LIBRARY_PATH": str(driver)} if driver else {})}
    for module in modules:
        ran = run([str(python), "-I", "-c", f"import {module}"], folder, environ)
        if ran.status:
            line = last_line(ran.lines)
            raise ActionError.of(
                failure(f"import {module}", ran.status, line), hint=import_hint(module, line)
            )
        print(f"import {module}: it loads{' with a stub of the driver' if driver else ''}", flush=True)


def import_hint(package: str, line: str, machine: MachineCuda = NONE) -> str:
    """Return a hint for an import that ended with this line, on a machine with this CUDA."""
    module = re.search(r"No module named '([\w.]+)'", line)
    if module and module[1].partition(".")[0] == package.partition(".")[0]:
        return "`[package] import` must name a package that is in the wheel"
    if module:
        return (
            f"the wheel does not declare it: add the package of {module[1]!r} to the project's dependencies, "
            "or to [wheel] requires"
        )
    if "libcuda.so" in line or "libnvidia-ml.so" in line:
        return (
            "that library is the driver's, which many machines do not have: open it with dlopen instead of linking it; "
            "a module that must link with it can be tested with [test] imports"
        )
    absent = _absent(line)
    if libraries.is_toolkit_file(absent):
        here = machine.has(absent)
        return loaded_cuda.advice(absent) + (
            f"; the test hides the one of this machine, {here}" if here else ""
        )
    if absent:
        return "no declared package has that library on the wheel's search paths: see the audit's findings"
    return "an import must work where there is no GPU; the log has all of its output"


def _absent(line: str) -> str:
    """Return the library that an import did not find, from the loader's message; "" for another message."""
    found = re.search(r"(\S+): cannot open shared object file", line)
    return found[1].rpartition("/")[2] if found else ""
