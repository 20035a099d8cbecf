"""The origin of a project's files, in the form of `[package] source`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.tags import Tag


@dataclass(frozen=True, slots=True)
class Origin:
    """A folder, an sdist or a release on an index."""

    name: str  # of the project, if its files have none
    kind: str  # of the reason: "from-folder", "from-index"
    source: Mapping[str, str]  # as in the manifest
    facts: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[Tag, ...] = ()  # of published wheels for Linux
