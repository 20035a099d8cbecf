"""Names the shared libraries of a build's overlay as the repair of a wheel looks for them."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpuforge.binary.elf import linked_file
from gpuforge.errors import MalformedError


def by_soname(libraries: Path, folder: Path) -> Path:
    """Fill `folder` with the libraries below another folder, named by their SONAMEs; return it."""
    folder.mkdir()
    for path in sorted(libraries.rglob("*")):
        try:
            elf = linked_file.read(path) if path.is_file() else None
        except MalformedError:
            continue
        name = folder / (elf.soname or path.name) if elf else None
        if name and not name.exists():
            shutil.copyfile(path, name)
    return folder
