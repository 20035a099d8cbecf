"""Functions of the steps that lay an object's kernels out as they go into a wheel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge import disk
from gpuforge.package.contents import CompiledBy
from gpuforge.plan.requests.kernels import LockedPackage
from gpuforge.steps import value_file
from gpuforge.wheel import unpacked
from gpuforge.wheel.filename import LockedWheels


def lay(output: Path, pack: Callable[[], Path]) -> None:
    """Pack a folder below `output`, and print its files."""
    with disk.errors_at(output):
        output.mkdir(parents=True, exist_ok=True)
        made = pack()
    for file in unpacked.files(made):
        print(f"{file.relative_to(output)}: {file.stat().st_size} bytes")


def made_by(compiler: CompiledBy, package: LockedPackage | None) -> CompiledBy:
    """Return a compiler with its version; for one from a package, the version is in the lock."""
    if not package:
        return compiler
    project = canonicalize_name(Requirement(package.requires).name)
    releases = value_file.read(LockedWheels, package.lock).releases()
    return replace(compiler, version=next(str(each.version) for each in releases if each.project == project))
