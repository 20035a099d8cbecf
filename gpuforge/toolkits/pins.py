"""Wheels of NVIDIA's on PyPI, each pinned by its sha256, and the choice of those that a toolkit needs.

NVIDIA's libraries outside the toolkits, such as cuDNN and NCCL, come in packages of their own (data/beside.toml).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpuforge.cuda.suffix import without_suffix
from gpuforge.cuda.version import major_of
from gpuforge.datafile import load
from gpuforge.errors import UsageError
from gpuforge.toolkits.plain import read


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """One wheel of PyPI, exactly."""

    package: str
    version: str
    filename: str
    sha256: str
    size: int  # bytes


def choose(
    release: Mapping[str, Any], compiler: Iterable[str], libraries: Sequence[str], machine: str
) -> tuple[PinnedWheel, ...]:
    """Return the wheels of a release that are the `compiler`'s or those of `libraries`, with what these need.

    `release` is a row of a data file, with `wheels` and `extras`. Raises UsageError for a library that it does not
    have, with the nearest names.
    """
    own, major = release["extras"], major_of(release["toolkit"])
    check_libraries(libraries, [*own, *_beside(major)], release["toolkit"])
    packages = {*compiler, *(package for name in libraries if name in own for package in own[name])}
    others, needed = beside(libraries, major, machine)
    rows = (
        r for r in release["wheels"] if r["package"] in packages or without_suffix(r["package"]) in needed
    )
    return (*(read(PinnedWheel, row) for row in rows if row["machine"] == machine), *others)


def beside(
    libraries: Sequence[str], major: int, machine: str
) -> tuple[tuple[PinnedWheel, ...], frozenset[str]]:
    """Return the wheels of those `libraries` that are outside the toolkits, and the projects of a toolkit they need.

    The projects' names are without a suffix: "nvidia-cublas".
    """
    rows = [row for name, row in _beside(major).items() if name in libraries]
    wheels = (
        read(PinnedWheel, wheel) for row in rows for wheel in row["wheels"] if wheel["machine"] == machine
    )
    return tuple(wheels), frozenset(without_suffix(package) for row in rows for package in row["needs"])


class UnknownLibraryError(UsageError):
    """`[cuda] libraries` names what a toolkit does not have."""


def beside_toolkits(major: int | None = None) -> tuple[str, ...]:
    """Return the names of NVIDIA's libraries that come in packages of their own: "nccl"; of any CUDA, or a major."""
    rows = load(__file__, "beside.toml")["library"]
    return tuple(dict.fromkeys(row["name"] for row in rows if major in {None, row["cuda"]}))


@cache
def _beside(major: int) -> Mapping[str, Mapping[str, Any]]:
    """Return those that are offered for a CUDA major, with their wheels."""
    return {row["name"]: row for row in load(__file__, "beside.toml")["library"] if row["cuda"] == major}


def check_libraries(libraries: Sequence[str], known: Iterable[str], toolkit: str) -> None:
    """Raise UnknownLibraryError if a library is not among `known`, with the nearest names of each."""
    names = sorted(known)
    unknown = [name for name in libraries if name not in names]
    if unknown:
        near = [match for name in unknown for match in difflib.get_close_matches(name, names, n=2)]
        guess = f"did you mean {' or '.join(near)}? " if near else ""
        raise UnknownLibraryError.of(
            f"CUDA {toolkit} has no library {', '.join(map(repr, unknown))}",
            hint=f"{guess}it has {', '.join(names)}",
        )
