"""Lists the libraries in a process that uses the package: of its wheel, and of the packages that it requires."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distributions
from pathlib import Path

from .. import layout, wheels

_LIBRARY = re.compile(r".*\.so(\.[0-9.]+)?")
# https://packaging.python.org/en/latest/specifications/dependency-specifiers/
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[(?P<extras>[^\]]*)\])?[^;]*;?(?P<marker>.*)"
)
_EXTRA = re.compile(r"""\bextra\s*==\s*["']([^"']+)["']|["']([^"']+)["']\s*==\s*extra\b""")


@dataclass(frozen=True)
class LibraryGroup:
    """Libraries that are loaded together: the wheel's (`owner` is ""), or those of a package it requires."""

    owner: str
    libraries: tuple[Path, ...]


@dataclass(frozen=True)
class _Requirement:
    name: str
    extras: frozenset[str]  # the extras that it requires
    of: frozenset[str]  # the extras that require it; empty: it is always required


def parts(home: Path, package: str, *, without: Sequence[str]) -> list[LibraryGroup]:
    """Return the wheel's libraries, then those of each installed package that it requires.

    `home` is this runtime's folder in the package (an import name). The kernel sets `without` are left out, also those
    in kernels wheels, as another library will be loaded in their place. Without a RECORD the requirements are unknown.
    """
    site, wheel = home.parents[package.count(".") + 1], _wheel(home, package)
    own = list(_beside(site, package)) if wheel is None else _recorded(wheel)
    kernels = [home, *(Path(apart.home) for apart in wheels.installed(str(home), package))]
    unused = {Path(layout.kernels(str(place), name)) for place in kernels for name in without}
    required = _required(wheel, site) if wheel else ()
    found = [
        LibraryGroup("", _libraries(own, unused)),
        *(LibraryGroup(str(other.metadata["Name"]), _libraries(_files(other), unused)) for other in required),
    ]
    return [part for part in found if part.libraries]


def release(home: Path, package: str) -> str:
    """Return the name and version of this runtime's wheel, "" if it is not known."""
    wheel = _wheel(home, package)
    name = _name(wheel) if wheel else ""
    return f"{name} {wheel.version}" if wheel and name else ""


def _wheel(home: Path, package: str) -> PathDistribution | None:
    site = home.parents[package.count(".") + 1]
    marker = f"{home.relative_to(site).as_posix()}/__init__.py"
    for record in sorted(site.glob("*.dist-info/RECORD")):
        found = PathDistribution(record.parent)
        if site / marker in _recorded(found):
            return found
    return None


def _name(of: Distribution) -> str:
    """Return a package's name, "" if its METADATA is damaged."""
    try:
        return str(of.metadata["Name"] or "")
    except (OSError, ValueError):
        return ""


def _recorded(wheel: PathDistribution) -> list[Path]:
    folder = Path(str(wheel.locate_file("")))
    try:
        return [folder / row[0] for row in csv.reader((wheel.read_text("RECORD") or "").splitlines()) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def _files(other: Distribution) -> Iterator[Path]:
    try:
        files = other.files or ()
    except (OSError, TypeError, ValueError, csv.Error):  # its RECORD is damaged
        return
    for file in files:
        if _LIBRARY.fullmatch(file.name):
            yield Path(os.path.normpath(str(other.locate_file(file))))


def _libraries(files: Iterable[Path], unused: set[Path]) -> tuple[Path, ...]:
    return tuple(
        sorted(
            path
            for path in files
            if _LIBRARY.fullmatch(path.name) and path.is_file() and unused.isdisjoint(path.parents)
        )
    )


def _beside(site: Path, package: str) -> Iterator[Path]:
    yield from (site / package.partition(".")[0]).rglob("*.so*")
    for folder in site.glob("*.libs"):
        yield from folder.glob("*.so*")


def _required(wheel: Distribution, site: Path) -> Iterator[Distribution]:
    """Yield the installed packages that a wheel requires, directly or through others, each once.

    Installed packages count, whatever their markers require. The extras that a user chose for the wheel are not
    recorded: one counts if all its requirements are installed.
    """
    installed: dict[str, Distribution] = {}
    for found in (*distributions(path=[str(site)]), *distributions()):
        installed.setdefault(_normal(_name(found)), found)
    pending = [(wheel, _complete(wheel, installed))]
    seen: dict[str, frozenset[str]] = {_normal(_name(wheel)): frozenset()}
    while pending:
        needing, extras = pending.pop(0)
        for one in _requirements(needing):
            other = installed.get(one.name)
            if other is None or (one.of and not one.of & extras):
                continue
            if one.name not in seen:
                yield other
            elif one.extras <= seen[one.name]:
                continue
            seen[one.name] = seen.get(one.name, frozenset()) | one.extras
            pending.append((other, one.extras))


def _complete(wheel: Distribution, installed: Iterable[str]) -> frozenset[str]:
    names: dict[str, list[bool]] = {}
    for one in _requirements(wheel):
        for extra in one.of:
            names.setdefault(extra, []).append(one.name in installed)
    return frozenset(extra for extra, there in names.items() if all(there))


def _requirements(of: Distribution) -> Iterator[_Requirement]:
    for line in of.requires or ():
        match = _REQUIREMENT.match(line)
        if match:
            extras = frozenset(
                _normal(extra.strip()) for extra in (match["extras"] or "").split(",") if extra.strip()
            )
            owners = frozenset(_normal(a or b) for a, b in _EXTRA.findall(match["marker"]))
            yield _Requirement(_normal(match["name"]), extras, owners)


def _normal(name: str) -> str:
    """https://packaging.python.org/en/latest/specifications/name-normalization/"""
    return re.sub(r"[-_.]+", "-", name).lower()
