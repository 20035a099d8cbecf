"""Packages whose wheels bring CUDA libraries without naming a CUDA major, and the major of each of their releases."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gpuforge.cuda.suffix import major_of_local
from gpuforge.datafile import load


@cache
def tables() -> dict[str, Any]:
    """Return the rows of carriers.toml."""
    return load(__file__, "carriers.toml")


def cuda_majors(requirement: Requirement) -> frozenset[int]:
    """Return the CUDA majors of the releases on PyPI that a requirement allows; empty where they are not known.

    A version with a local part is not from PyPI: `torch==2.11.0+cu126` is for CUDA 12.
    """
    name = canonicalize_name(requirement.name)
    rows = [row for row in tables()["carrier"] if row["package"] == name and not row.get("extra")]
    releases = {Version(text) for row in rows for text in row["known"]} | set(_named(requirement))
    allowed = [each for each in releases if requirement.specifier.contains(each, prereleases=True)]
    found = set()
    for release in allowed if rows else ():
        if release.local:
            found |= {major for major in [major_of_local(str(release))] if major}
        else:
            found |= {row["cuda"] for row in rows if "cuda" in row and _is_of(row, release)}
    return frozenset(found)


def newest(package: str, major: int) -> Version | None:
    """Return the newest known release of a package on PyPI whose wheels are for a CUDA major."""
    name = canonicalize_name(package)
    rows = [row for row in tables()["carrier"] if row["package"] == name and not row.get("extra")]
    known = (Version(text) for row in rows if row.get("cuda") == major for text in row["known"])
    return max(known, default=None)


def newest_major(package: str) -> int:
    """Return the CUDA major of a package's newest releases on PyPI; KeyError for a package that is in no row."""
    for row in tables()["carrier"]:  # newest first
        if row["package"] == package and "cuda" in row and not row.get("extra"):
            return int(row["cuda"])
    raise KeyError(package)


def _is_of(row: dict[str, Any], release: Version) -> bool:
    return Requirement(f"{row['package']}{row['versions']}").specifier.contains(release, prereleases=True)


def _named(requirement: Requirement) -> Iterator[Version]:
    """Yield the versions that a requirement names: 2.11 of `==2.11.*`."""
    for clause in requirement.specifier:
        try:
            yield Version(clause.version.removesuffix(".*"))
        except InvalidVersion:  # `===` takes any text
            continue
