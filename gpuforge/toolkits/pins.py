"""NVIDIA's wheels on PyPI, each pinned by its sha256, and the choice of those that a toolkit needs.

NVIDIA's libraries outside the toolkits, such as cuDNN and NCCL, come in packages of their own (data/beside.toml).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from gpuforge.cuda.suffix import without_suffix
from gpuforge.cuda.version import major_of
from gpuforge.datafile import load
from gpuforge.errors import UsageError


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """One exact wheel of PyPI."""

    package: str
    version: str
    filename: str
    sha256: str
    size: int  # bytes


class ListedToolkit(NamedTuple):
    """The wheels of one toolkit on PyPI, as in a data file."""

    minor: str
    wheels: Mapping[str, tuple[PinnedWheel, ...]]  # by machine type
    extras: Mapping[str, Sequence[str]]  # library -> the packages that have it

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> ListedToolkit:
        """Read the keys of a row that are about wheels."""
        return cls(row["toolkit"], _by_machine(row["wheels"]), row["extras"])


class _LibraryBeside(NamedTuple):
    """A library outside the toolkits, for one CUDA major."""

    wheels: Mapping[str, tuple[PinnedWheel, ...]]  # by machine type
    needs: Sequence[str]  # packages of a toolkit


def choose(
    toolkit: ListedToolkit, compiler: Iterable[str], libraries: Sequence[str], machine: str
) -> tuple[PinnedWheel, ...]:
    """Return the wheels of a toolkit for the `compiler` or for `libraries`, with their dependencies.

    Raises UsageError for an unknown library, with the nearest names.
    """
    own, major = toolkit.extras, major_of(toolkit.minor)
    check_libraries(libraries, [*own, *_beside(major)], toolkit.minor)
    packages = {*compiler, *(package for name in libraries if name in own for package in own[name])}
    others, needed = beside(libraries, major, machine)
    wheels = (
        wheel
        for wheel in toolkit.wheels.get(machine, ())
        if wheel.package in packages or without_suffix(wheel.package) in needed
    )
    return (*wheels, *others)


def beside(
    libraries: Sequence[str], major: int, machine: str
) -> tuple[tuple[PinnedWheel, ...], frozenset[str]]:
    """Return the wheels of those `libraries` that are outside the toolkits, and the projects of a toolkit they need.

    The projects' names are without a suffix: "nvidia-cublas".
    """
    chosen = [library for name, library in _beside(major).items() if name in libraries]
    wheels = tuple(wheel for library in chosen for wheel in library.wheels.get(machine, ()))
    return wheels, frozenset(without_suffix(package) for library in chosen for package in library.needs)


class UnknownLibraryError(UsageError):
    """`[cuda] libraries` has a name that the toolkit does not have."""


def beside_toolkits(major: int | None = None) -> tuple[str, ...]:
    """Return the names of NVIDIA's libraries in packages of their own: "nccl"; of any CUDA, or a major."""
    rows = load(__file__, "beside.toml")["library"]
    return tuple(dict.fromkeys(row["name"] for row in rows if major in {None, row["cuda"]}))


@cache
def _beside(major: int) -> Mapping[str, _LibraryBeside]:
    """Return the libraries for a CUDA major, by name."""
    rows = (row for row in load(__file__, "beside.toml")["library"] if row["cuda"] == major)
    return {row["name"]: _LibraryBeside(_by_machine(row["wheels"]), row["needs"]) for row in rows}


def _by_machine(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, tuple[PinnedWheel, ...]]:
    found: dict[str, tuple[PinnedWheel, ...]] = {}
    for row in rows:
        fields = {key: value for key, value in row.items() if key != "machine"}
        found[row["machine"]] = (*found.get(row["machine"], ()), PinnedWheel(**fields))
    return found


def check_libraries(libraries: Sequence[str], available: Iterable[str], toolkit: str) -> None:
    """Raise UnknownLibraryError if a library is not among `available`, with the nearest names of each."""
    names = sorted(available)
    unknown = [name for name in libraries if name not in names]
    if unknown:
        near = [match for name in unknown for match in difflib.get_close_matches(name, names, n=2)]
        guess = f"did you mean {' or '.join(near)}? " if near else ""
        raise UnknownLibraryError.of(
            f"CUDA {toolkit} has no library {', '.join(map(repr, unknown))}",
            hint=f"{guess}it has {', '.join(names)}",
        )


@cache
def headers_by_library() -> Mapping[str, tuple[str, ...]]:
    """Return the headers of each library as sources include them; `nvtx3/` is all of that folder."""
    return {name: tuple(files) for name, files in load(__file__, "headers.toml")["libraries"].items()}
