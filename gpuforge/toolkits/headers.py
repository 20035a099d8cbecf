"""The headers that each library of `[cuda] libraries` brings; data in data/headers.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gpuforge.datafile import load


@cache
def by_library() -> Mapping[str, tuple[str, ...]]:
    """Return the headers of each library as sources include them; `nvtx3/` is all of that folder."""
    return {name: tuple(files) for name, files in load(__file__, "headers.toml")["libraries"].items()}
