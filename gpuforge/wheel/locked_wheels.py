"""The lock of requirements for later steps: the wheels that a step has fetched for them, with their sha256."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from gpuforge import digest


class LockedRelease(NamedTuple):
    """A release of a project, and the sha256 of its wheel."""

    project: str
    version: Version
    sha256: str


class LockedWheels(NamedTuple):
    """The requirements, and the wheels that were fetched for them: each one's sha256 by its file name."""

    requires: tuple[str, ...]
    wheels: Mapping[str, str]

    @classmethod
    def of_folder(cls, requires: Iterable[str], folder: Path) -> LockedWheels:
        """Make it from a folder with the wheels of these requirements."""
        found = {path.name: digest.of_file(path) for path in sorted(folder.glob("*.whl"))}
        return cls(tuple(requires), found)

    def __str__(self) -> str:
        """Write it on one line of a log."""
        return f"{len(self.wheels)} wheels for: {', '.join(self.requires)}"

    def releases(self) -> tuple[LockedRelease, ...]:
        """Return the fetched releases, sorted by project."""
        return tuple(
            sorted(
                LockedRelease(*parse_wheel_filename(name)[:2], sha256) for name, sha256 in self.wheels.items()
            )
        )
