"""Which library of `[cuda] libraries` brings which headers; data in data/headers.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gpuforge.datafile import load


@cache
def by_library() -> Mapping[str, tuple[str, ...]]:
    """Return the headers of each library as sources include them; `nvtx3/` stands for all in that folder."""
    return {name: tuple(files) for name, files in load(__file__, "headers.toml")["libraries"].items()}
