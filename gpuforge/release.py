"""One release of a project."""

from typing import NamedTuple


class Release(NamedTuple):
    """The name of a project, as it is written where it was read, and a version of it."""

    project: str
    version: str

    def __str__(self) -> str:
        return f"{self.project} {self.version}"
