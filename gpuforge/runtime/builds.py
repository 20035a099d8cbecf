"""Where a user's own builds lie, and which of them is in use.

<root>/<package>/<object>-<recipe>/active.json     names the build that is in use
                                   <build>/        one library
                                   work-*/         a compilation under way
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from . import document

SCHEMA = 1
ACTIVE = "active.json"


class BuildUnusable(Exception):  # noqa: N818  a state to report and to fall back from
    """There is a user build, and it cannot be used; the message says why."""


@dataclass(frozen=True)
class Build:
    """A library that the user compiled, and what it was made with."""

    file: Path
    size: int  # bytes
    toolchain: str  # its name in the manifest
    compiler: str  # "g++ 12.2.0"
    arch: str  # "sm_90"; "" where the compiler was told of no GPU
    sources: tuple[str, ...]  # those that the user added


class Place:
    """Where the builds of one object of one wheel lie: sources or toolchains that change give another place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def active(self) -> Build | None:
        """Return the build in use, None when there is none; raises BuildUnusable."""
        file = self.folder / ACTIVE
        try:
            data = document.read(str(file))
            schema = document.whole(data, "schema")
            if schema != SCHEMA:
                raise BuildUnusable(f"{file} has schema {schema}, and this runtime reads {SCHEMA}")
            library = self.folder / document.file_name(data, "build") / document.file_name(data, "file")
            build = Build(
                library,
                document.whole(data, "size"),
                document.text(data, "toolchain"),
                document.text(data, "compiler"),
                document.text(data, "arch"),
                document.texts(data, "sources"),
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BuildUnusable(f"{file}: {error.strerror or error}") from error
        except document.Damaged:
            raise BuildUnusable(f"{file} is damaged: compile again") from None
        for path in (self.folder, library.parent, library):
            guard(path)
        return build


def guard(path: Path) -> None:
    """Raise BuildUnusable where others could put code into a folder or a file; what is not there is no danger."""
    try:
        found = path.stat()
    except OSError:
        return
    except ValueError:  # no path at all
        raise BuildUnusable(f"{str(path)!r} is no path: compile again") from None
    if found.st_uid not in (0, os.geteuid()):
        raise BuildUnusable(f"{path} belongs to another user, who could put code into it")
    if found.st_mode & stat.S_IWOTH:
        raise BuildUnusable(f"{path} can be written by other users (chmod o-w {path})")
