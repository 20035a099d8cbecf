"""One release of a project."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^*,;=\s]+)")


class Release(NamedTuple):
    """The name of a project, as it is written where it was read, and a version of it."""

    project: str
    version: str

    @classmethod
    def of_pin(cls, text: str) -> Self:
        """Return the release that "name==version" requires; raises ValueError for any other requirement."""
        from packaging.requirements import Requirement  # noqa: PLC0415  slow to load, and all file names need releases

        parts = _PIN.fullmatch(text)
        if parts is None:
            raise ValueError(text)
        Requirement(text)
        return cls(parts[1], parts[2])

    def __str__(self) -> str:
        return f"{self.project} {self.version}"
