"""Puts kernel sets, and the parts of the runtime that they need, into the import package of a wheel."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from gpuforge.embedded.major_wheels import KernelsWheelSet
from gpuforge.embedded.runtime_files import FOLDER
from gpuforge.errors import ActionError
from gpuforge.package import c_header as header
from gpuforge.package import cpu_functions, import_package, runtime_parts
from gpuforge.runtime.layout import HOME
from gpuforge.wheel import unpacked

GUARD = FOLDER / "guard.py"  # the only file of the runtime with another place in a wheel, see `guard.py` here


def kernel_sets(
    tree: Path,
    name: str,
    packed: Sequence[Path],
    *,
    apart: Sequence[KernelsWheelSet] = (),
    c_header: bool = False,
) -> list[str]:
    """Put packed kernel sets, and the runtime that finds them, into the import package `name` ("saxpy", "a.b").

    `apart` are the sets in kernels wheels. With `c_header` the header for programs in C is there, too. Returns the
    names of the added files. Raises ActionError if the wheel has no such import package, or a file in that place, and
    if a library for the CPU lacks a function.
    """
    home = import_package.folder(tree, name) / HOME
    if home.exists():
        raise ActionError.of(
            f"the wheel has a folder {home.relative_to(tree)} already",
            hint=f"{HOME} is where the runtime goes: have the build leave it out",
        )
    cpu_functions.check(packed)
    contents = runtime_parts.contents_of(tree, packed, apart, c_header=c_header)
    for source, base in [
        *((file, FOLDER) for file in runtime_parts.files(contents)),
        *((f, p) for p in packed for f in unpacked.files(p)),
    ]:
        target = home / source.relative_to(base)
        if target.exists():
            raise ActionError.of(
                f"two kernel sets have {target.relative_to(home)}", hint="give each object another name"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    if c_header:
        target = home / header.PATH
        target.parent.mkdir()
        target.write_text(header.joined(), encoding="utf-8")
    return [path.relative_to(tree).as_posix() for path in unpacked.files(home)]
