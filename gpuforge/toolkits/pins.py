"""Wheels of NVIDIA's on PyPI, each pinned by its sha256, and the choice of those that a toolkit needs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuforge.errors import UsageError
from gpuforge.toolkits.plain import read


@dataclass(frozen=True, slots=True)
class Pin:
    """One wheel of PyPI, exactly."""

    package: str
    version: str
    filename: str
    sha256: str
    size: int  # bytes


def choose(
    release: Mapping[str, Any], compiler: Iterable[str], libraries: Sequence[str], machine: str
) -> tuple[Pin, ...]:
    """Return the wheels of a release that are the `compiler`'s or those of `libraries`, with what these need.

    `release` is a row of a data file, with `wheels` and `extras`. Raises UsageError for a library that it does not
    have, with the nearest names.
    """
    check_libraries(libraries, release["extras"], release["toolkit"])
    packages = {*compiler, *(package for name in libraries for package in release["extras"][name])}
    rows = [row for row in release["wheels"] if row["package"] in packages and row["machine"] == machine]
    return tuple(read(Pin, row) for row in rows)


def check_libraries(libraries: Sequence[str], known: Iterable[str], toolkit: str) -> None:
    """Raise UsageError if a library is not among `known`, with the nearest names of each."""
    names = sorted(known)
    unknown = [name for name in libraries if name not in names]
    if unknown:
        near = [match for name in unknown for match in difflib.get_close_matches(name, names, n=2)]
        guess = f"did you mean {' or '.join(near)}? " if near else ""
        raise UsageError.of(
            f"CUDA {toolkit} has no library {', '.join(map(repr, unknown))}",
            hint=f"{guess}it has {', '.join(names)}",
        )
