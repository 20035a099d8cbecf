"""Refuses folders and files of the user into which others could put code."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .index import Refused
from .reason import Reason


class BuildUnusable(Refused):
    """There is a user build, but it cannot be used."""


def folders_above(folder: Path) -> list[Path]:
    """Return the folders above an object's: <home>/user/<package>, <home>/user and <home>."""
    return list(folder.parents)[:3]


def guard_place(folder: Path) -> None:
    """Raise BuildUnusable if others could put code into an object's folder, or replace it or a folder above it."""
    guard(folder)
    for above in folders_above(folder):
        guard(above, sticky=True)


def guard(path: Path, *, sticky: bool = False) -> None:
    """Raise BuildUnusable if others could put code into a folder or a file; a missing one is safe.

    With `sticky`, a folder with that bit is safe: there, users cannot rename the files of others.
    """
    try:
        found = path.stat()
    except OSError:
        return
    if found.st_uid not in (0, os.geteuid()):
        raise BuildUnusable(Reason("other-owner", {"path": str(path)}))
    if found.st_mode & stat.S_IWOTH and not (sticky and found.st_mode & stat.S_ISVTX):
        raise BuildUnusable(Reason("open-to-others", {"path": str(path)}))
