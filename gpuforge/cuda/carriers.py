"""Packages whose wheels bring CUDA libraries without a CUDA major in their names, and the major of each release."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gpuforge.cuda import libraries
from gpuforge.cuda.provided import METAPACKAGE
from gpuforge.cuda.suffix import major_of_local
from gpuforge.datafile import load, rows


class Carrier(NamedTuple):
    """Releases of a package that bring the same packages of CUDA libraries: a row of data/carriers.toml."""

    package: str
    versions: str  # ">=2.11,<2.15"
    known: tuple[str, ...]  # releases that the row was read from
    loads: bool  # importing the package loads the libraries
    brings: tuple[str, ...]  # requirements
    cuda: int | None = None
    extra: str = ""  # the extra of the package that brings them
    machines: tuple[str, ...] = ()  # the machines of these releases; empty for all
    carries: tuple[str, ...] = ()  # SONAMEs of its own libraries that importing it loads
    lacks: tuple[str, ...] = ()  # SONAMEs that other releases have

    def is_for(self, machine: str) -> bool:
        """Return whether a machine type has these releases."""
        return not self.machines or machine in self.machines


class OtherLibraries(NamedTuple):
    """Libraries of a package that are not in the toolkits' table: a row of data/carriers.toml."""

    package: str
    folder: str  # relative to site-packages
    sonames: tuple[str, ...]
    needs: tuple[str, ...] = ()  # SONAMEs of other packages that come with them and are found by a path
    cuda: int | None = None
    nvidia: bool = False  # a package of NVIDIA
    versions: str = ""  # the releases that have the libraries; "" for all
    known: tuple[str, ...] = ()  # releases that were read


@cache
def carriers() -> tuple[Carrier, ...]:
    """Return all rows of packages that bring CUDA libraries; those of one package are newest first."""
    return rows(Carrier, _tables()["carrier"])


@cache
def other_libraries() -> tuple[OtherLibraries, ...]:
    """Return the libraries that are not in the toolkits' table."""
    return rows(OtherLibraries, _tables()["library"])


@cache
def nvidia_packages() -> frozenset[str]:
    """Return NVIDIA's own packages of libraries: those of the toolkits, and those that use them."""
    beside = (row.package for row in other_libraries() if row.nvidia)
    return frozenset((*beside, *(entry.package for entry in libraries.toolkit_libraries())))


def of_metapackage(extras: Collection[str]) -> tuple[Carrier, ...]:
    """Return the releases of the toolkits' metapackage, which brings a package for each of its extras."""
    names = _tables()["toolkit-extras"]["packages"]
    chosen = sorted(names if "all" in extras else names.keys() & extras)
    return tuple(
        Carrier(
            METAPACKAGE,
            row["versions"],
            tuple(row["known"]),
            loads=False,
            brings=tuple(names[extra].format(row["suffix"]) for extra in chosen),
            cuda=row["cuda"],
        )
        for row in _tables()["toolkit"]
    )


def machines_of_nvidia() -> tuple[str, ...]:
    """Return the machine types that NVIDIA's packages have wheels for."""
    return tuple(_tables()["nvidia"]["machines"])


@cache
def in_environment() -> tuple[str, ...]:
    """Return the prefixes of packages that install their libraries into the environment's own lib folder."""
    return tuple(name for row in _tables()["environment"] for name in row["names"])


def cuda_majors(requirement: Requirement) -> frozenset[int]:
    """Return the CUDA majors of the releases on PyPI that a requirement allows; empty if they are not known.

    A version with a local part is not from PyPI: `torch==2.11.0+cu126` is for CUDA 12.
    """
    own = _without_extra(canonicalize_name(requirement.name))
    releases = {Version(text) for row in own for text in row.known} | set(_named(requirement))
    allowed = [each for each in releases if requirement.specifier.contains(each, prereleases=True)]
    found = set()
    for release in allowed if own else ():
        if release.local:
            found.add(major_of_local(str(release)))
        else:
            fitting = (row for row in own if SpecifierSet(row.versions).contains(release, prereleases=True))
            found |= {row.cuda for row in fitting}
    return frozenset(major for major in found if major)


def newest(package: str, major: int) -> Version | None:
    """Return the newest known release of a package on PyPI whose wheels are for a CUDA major."""
    own = _without_extra(canonicalize_name(package))
    known = (Version(text) for row in own if row.cuda == major for text in row.known)
    return max(known, default=None)


def has_rows(package: str) -> bool:
    """Return whether releases of a package bring CUDA libraries without an extra."""
    return bool(_without_extra(package))


def end_of(package: str, major: int) -> str:
    """Return the clause of a package's releases up to the last for a CUDA major: "<2.11"; "" if that is the newest."""
    last = next((row for row in _without_extra(package) if row.cuda and row.cuda <= major), None)
    ends = re.findall(r"<[\d.]+", last.versions) if last and last.cuda == major else []
    return ends[-1] if ends and major != newest_major(package) else ""


def newest_major(package: str) -> int:
    """Return the CUDA major of a package's newest releases on PyPI; KeyError for a package without a row."""
    for row in _without_extra(package):
        if row.cuda:
            return row.cuda
    raise KeyError(package)


def _tables() -> dict[str, Any]:
    return load(__file__, "carriers.toml")


def _without_extra(package: str) -> tuple[Carrier, ...]:
    return tuple(row for row in carriers() if row.package == package and not row.extra)


def _named(requirement: Requirement) -> Iterator[Version]:
    """Yield the versions in a requirement: 2.11 of `==2.11.*`."""
    for clause in requirement.specifier:
        try:
            yield Version(clause.version.removesuffix(".*"))
        except InvalidVersion:  # `===` takes any text
            continue


class Framework(NamedTuple):
    """A framework's row of data/runtimes.toml, which explains each field."""

    package: str
    named: str
    opens: tuple[str, ...]
    cuda_release: str = ""
    linked: bool = False
    libraries: str = ""
    headers: tuple[str, ...] = ()
    cmake: str = ""
    builder: str = ""
    standard: str = ""

    def is_in(self, name: str) -> bool:
        """Return whether the name of a file or a project contains the framework's: libx_torch_ops.so."""
        return re.search(self.named, name) is not None


@cache
def frameworks() -> tuple[Framework, ...]:
    """Return every known framework."""
    return rows(Framework, load(__file__, "runtimes.toml")["framework"])


def linked_frameworks() -> tuple[Framework, ...]:
    """Return the frameworks that extensions link with, and whose libraries no wheel may contain: torch."""
    return tuple(each for each in frameworks() if each.linked)


class Carried(NamedTuple):
    """One installed package, with its libraries."""

    package: str  # "torch"
    version: str  # "" if it is not known which release a wheel was linked with
    module: str  # the module that loads its libraries when imported; "" if no library is in an import package
    libraries: Mapping[str, str]  # SONAME -> folder below site-packages: "torch/lib"

    @property
    def series(self) -> str:
        """Requires-Dist for the releases with the same ABI, judged by the version: "torch>=2.15,<2.16"."""
        version = Version(self.version)
        return f"{self.package}>={version.major}.{version.minor},<{version.major}.{version.minor + 1}"


class BuildLibraries(NamedTuple):
    """The libraries of the packages of a build environment."""

    carried: tuple[Carried, ...] = ()  # packages whose libraries a wheel uses at run time: torch
    others: Mapping[str, str] = MappingProxyType({})  # those of other packages: file name -> package
