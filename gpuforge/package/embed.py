"""Puts kernel sets, and the runtime that loads them, into the import package of a wheel."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from gpuforge.embedded import runtime_files
from gpuforge.embedded.layout import HOME
from gpuforge.errors import ActionError
from gpuforge.package import import_package
from gpuforge.wheel import unpacked

GUARD = "guard.py"  # the only file of the runtime with another place in a wheel, see `guard.py` here


def kernel_sets(tree: Path, name: str, packed: Sequence[Path], runtime: Path) -> list[str]:
    """Put packed kernel sets, and the runtime that finds them, into the import package `name` ("saxpy", "a.b").

    Returns the names of the added files. Raises ActionError if the wheel has no such import package, or a file in that
    place.
    """
    home = import_package.folder(tree, name) / HOME
    if home.exists():
        raise ActionError.of(
            f"the wheel has a folder {home.relative_to(tree)} already",
            hint=f"{HOME} is where the runtime goes: have the build leave it out",
        )
    for source, base in [
        *((file, runtime) for file in source_files(runtime)),
        *((f, p) for p in packed for f in unpacked.files(p)),
    ]:
        target = home / source.relative_to(base)
        if target.exists():
            raise ActionError.of(
                f"two kernel sets have {target.relative_to(home)}", hint="give each object another name"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return [path.relative_to(tree).as_posix() for path in unpacked.files(home)]


def source_files(runtime: Path) -> list[Path]:
    """Return the files of the runtime's folder that go into wheels, sorted."""
    return sorted(
        path
        for path in runtime.rglob("*")
        if path.suffix in runtime_files.SUFFIXES and "__pycache__" not in path.parts and path.name != GUARD
    )
