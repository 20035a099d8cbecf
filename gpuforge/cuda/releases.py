"""CUDA releases with their architectures, host compilers and drivers; the table is data/cuda.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from gpuforge.cuda.version import is_of
from gpuforge.datafile import load, rows
from gpuforge.errors import UsageError
from gpuforge.runtime.arch import Arch

if TYPE_CHECKING:
    from packaging.version import Version


class ToolkitRelease(NamedTuple):
    """One toolkit minor, and the targets that it compiles for."""

    version: str
    ptx: str  # the PTX ISA that it writes
    driver: str | None  # released with it, and needed by its PTX; None if there was none, or it is unknown
    driver_floor: str  # the oldest driver for programs of the same major that need no PTX
    hosts: Mapping[str, tuple[int, int]]  # host compiler family -> first and last major
    archs: tuple[Arch, ...]
    source: str


class Former(NamedTuple):
    """A toolkit minor that is too old to build with: the needs of its GPU code."""

    version: str
    ptx: str
    driver: str  # released with it, and needed by all its programs if it is older than 11


def parsed(version: str) -> Version:
    """Return a version that can be compared with others."""
    from packaging.version import Version  # noqa: PLC0415  loading it takes a twentieth of a small audit

    return Version(version)


@cache
def releases() -> tuple[ToolkitRelease, ...]:
    """Return every known toolkit minor, oldest first."""
    data = load(__file__, "cuda.toml")
    floors = {row["cuda"]: row["driver"] for row in data["major"]}
    parse = cache(Arch.parse)  # most toolkits have the same ones
    return tuple(
        ToolkitRelease(
            version=row["version"],
            ptx=row["ptx"],
            driver=row.get("driver"),
            driver_floor=floors[parsed(row["version"]).major],
            hosts={family: tuple(majors) for family, majors in row["hosts"].items()},
            archs=tuple(map(parse, row["archs"])),
            source=row["source"],
        )
        for row in data["toolkit"]
    )


@cache
def former() -> tuple[Former, ...]:
    """Return the toolkit minors before the known ones, oldest first."""
    return rows(Former, load(__file__, "cuda.toml")["former"])


def release(version: str) -> ToolkitRelease:
    """Return the data of one toolkit minor ("13.0"); raises UsageError with the nearest known ones."""
    for known in releases():
        if known.version == version:
            return known
    message, hint = unknown(version)
    raise UsageError.of(message, hint=hint)


def unknown(version: str) -> tuple[str, str]:
    """Return message and hint for a toolkit that is not in the table."""
    names = [r.version for r in releases()]
    message = f"unknown CUDA toolkit {version!r}"
    minor = re.match(r"(\d+\.\d+)\.\d", version)
    if minor and minor[1] in names:
        return message, f"name the minor only: {minor[1]!r}"
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        return message, f"write it as in '13.0'; known: {', '.join(names)}"
    of_major = [n for n in names if is_of(n, version)]
    if of_major:
        return message, f"name the minor too: {', '.join(of_major)}"
    at = parsed(version)
    below = [n for n in names if parsed(n) < at][-1:]
    above = [n for n in names if parsed(n) > at][:1]
    return message, f"nearest: {' and '.join(below + above)}; known: {', '.join(names)}"
