"""Where a project's files came from, as `[package] source` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Origin:
    """A folder, an sdist or a release on an index."""

    name: str  # of the project, where its files have none
    kind: str  # of the reason: "from-folder", "from-index"
    source: Mapping[str, str]  # as in the manifest
    facts: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[tuple[str, str, str], ...] = ()  # Python, ABI and platform of published wheels for Linux
