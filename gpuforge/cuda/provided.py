"""The packages that a wheel requires: the oldest releases that fit, their content, and undeclared dependencies."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.releases import parsed
from gpuforge.cuda.suffix import suffix_of, with_suffix
from gpuforge.cuda.version import just_below
from gpuforge.requirements import Release

METAPACKAGE = "cuda-toolkit"


class CudaNeeds(NamedTuple):
    """The needs of a wheel in CUDA's packages: libraries and symbols."""

    symbols: Mapping[str, Mapping[str, Sequence[str]]]  # package -> SONAME -> symbols
    requires: tuple[str, ...]  # the project's own requirements, of any package


class Shared(NamedTuple):
    """One shared library of a release, and its needs of others."""

    soname: str
    folder: str  # below site-packages: "nvidia/cu13/lib"
    needed: tuple[str, ...]
    runpath: tuple[str, ...] = ()


class PackageRelease(NamedTuple):
    """One release of a package, with its content."""

    package: str
    version: str
    role: str  # "oldest" or "newest" of those that the wheel's requirements allow
    file: str  # the wheel's name
    sha256: str
    requires: tuple[str, ...] = ()  # the projects that it requires itself
    libraries: tuple[Shared, ...] = ()


class Floor(NamedTuple):
    """The oldest release of a package with every symbol that the wheel uses of it."""

    package: str
    version: str
    bound: str  # the shortest version that allows no release without a symbol: "12.0"
    cuda: str = ""  # the toolkit of the release: "13.0"; "" for a package outside the toolkits
    since: str = ""  # the oldest release of the toolkits' metapackage that brings this one or a newer one
    extra: str = ""  # the metapackage's extra for it
    symbols: Mapping[str, int] = MappingProxyType({})  # SONAME -> the number of its symbols that are used
    refused: tuple[str, ...] = ()  # older releases, which lack a symbol
    forgotten_by: tuple[Release, ...] = ()  # the releases that need it without declaring it
    direct: bool = True  # the wheel itself is linked with it


class Provided(NamedTuple):
    """All results; `missing` are libraries that a release needs and no package has."""

    floors: tuple[Floor, ...] = ()
    releases: tuple[PackageRelease, ...] = ()
    missing: tuple[tuple[str, Release], ...] = ()  # SONAME, the release that needs it

    @property
    def forgotten(self) -> tuple[str, ...]:
        """The packages that others need without requiring them: a wheel must require them itself."""
        return tuple(floor.package for floor in self.floors if floor.forgotten_by)


def requirement(floor: Floor, cuda: int) -> str:
    """Return the Requires-Dist line for a package: from its floor on, and never of another CUDA major.

    The number of some packages does not change with CUDA's major (curand is 10.x in 11, 12 and 13). For these it is a
    requirement of the toolkits' metapackage, which pins every part of a toolkit: "cuda-toolkit[curand]>=13.0,<14".
    """
    if floor.extra and not tells_major(floor.package, cuda):
        return f"{METAPACKAGE}[{floor.extra}]>={floor.since},<{cuda + 1}"
    return f"{floor.package}>={floor.bound},<{parsed(floor.version).major + 1}"


def reason(floor: Floor) -> str:
    """Return the reason for the oldest release that a wheel requires of a package."""
    counts = [(n, sonames.stem(name)) for name, n in floor.symbols.items() if n]
    symbols = ", ".join(f"{n} symbol{'s' * (n > 1)} of {name}" for n, name in counts)
    newer = f", and not in {floor.refused[-1]}" if floor.refused else ""
    used = f"all {symbols} are" if symbols else "its library is"
    return f"{floor.package}: floor {floor.cuda or floor.version}: {used} in {floor.package} {floor.version}{newer}"


def tells_major(package: str, cuda: int) -> bool:
    """Return whether a package's name or major version belongs to one CUDA major only.

    cufft is 11.x in CUDA 12 and 12.x in 13; cusparse is 12.x in both.
    """
    if suffix_of(package):
        return True
    own = _own_majors(package, cuda)
    return not any(own & _own_majors(with_suffix(package, other), other) for other in (cuda - 1, cuda - 2))


def _own_majors(package: str, cuda: int) -> set[int]:
    known = (entry for entry in libraries.toolkit_libraries(cuda) if entry.package == package)
    return {parsed(version).major for entry in known for version in (entry.first, entry.last)}


def outside(floor: Floor, cuda: int) -> tuple[str, ...]:
    """Return the versions of a package that its requirement must exclude: those of the next major, and older ones."""
    chosen = parsed(floor.version)
    above: tuple[str, ...] = (str(chosen.major + 1), f"{chosen.major + 1}.99999")
    if floor.extra and not tells_major(floor.package, cuda):
        above = (f"{chosen.major}.99999", *above)
    return (*floor.refused, just_below(chosen.major, chosen.minor), *above)


def shortest(version: str, releases: Iterable[str]) -> str:
    """Write a floor as "major.minor" if no older one of `releases` has these two numbers, else whole."""
    chosen = parsed(version)
    alike = [r for r in map(parsed, releases) if r.release[:2] == chosen.release[:2]]
    short = f"{chosen.major}.{chosen.minor}"
    return short if all(r >= chosen for r in alike) else version


def as_record(floor: Floor) -> dict[str, Any]:
    """Return a floor for a wheel's build record, without facts that change with a newer release of the package."""
    return {
        "version": floor.version,
        "cuda": floor.cuda,
        "symbols": dict(floor.symbols) if floor.direct else {},
        "for": sorted({by.project for by in floor.forgotten_by}),
    }
