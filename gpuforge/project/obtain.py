"""Obtains the project for `gpuforge init`: a folder, an sdist, or a project on the index."""

from __future__ import annotations

import os
from pathlib import Path

from gpuforge.errors import UsageError
from gpuforge.project import index_sdist
from gpuforge.project.origin import Origin
from gpuforge.steps.sdist import unpack

_SDISTS = (".tar.gz", ".zip")
_ARCHIVES = (*_SDISTS, ".tgz", ".tar.bz2", ".tar.xz", ".whl")


def obtain(project: str, manifest: Path, scratch: Path) -> tuple[Origin, Path]:
    """Return the origin of a project, relative to its `manifest`, and the folder with its files.

    Raises UsageError for anything but a folder, an sdist or a project on the index, and the errors of `index.fetch` and
    `unpack`.
    """
    path = Path(project)
    below = Path(os.path.relpath(path.absolute(), manifest.absolute().parent)).as_posix()
    if not project:
        raise UsageError.of(
            "the project's name is empty", hint="`.` is this folder; is a variable of the shell unset?"
        )
    if path.is_dir():
        if not any((path / name).is_file() for name in ("pyproject.toml", "setup.py")):
            raise UsageError.of(
                f"{path.absolute()} has neither pyproject.toml nor setup.py",
                hint="name the folder of a Python project, an sdist, or a project on the index",
            )
        return Origin(path.resolve().name, "from-folder", {"path": below}), path
    if path.is_file() and project.endswith(_SDISTS):
        unpack(path, scratch / "source", scratch)
        return Origin(path.name, "from-sdist", {"path": below}), scratch / "source"
    if path.exists() or "/" in project or project.lower().endswith(_ARCHIVES):
        raise UsageError.of(
            f"{path} is neither a folder nor an sdist" if path.exists() else f"{path} does not exist",
            hint="name a folder, an sdist (NAME-VERSION.tar.gz or .zip), or a project on the index",
        )
    return index_sdist.fetch(index_sdist.requirement_of(project), scratch)
