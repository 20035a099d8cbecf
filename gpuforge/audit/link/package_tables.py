"""Tables of packages: which libraries each brings, for which CUDA, and what it requires."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from packaging.version import Version

from gpuforge.audit import policy, version_clauses
from gpuforge.cuda import carriers, libraries, sonames
from gpuforge.cuda.provided import METAPACKAGE


class PackageLibrary(NamedTuple):
    """A SONAME that a package brings."""

    soname: str
    package: str
    folder: str  # relative to site-packages
    cuda: int | None
    needs: tuple[str, ...] = ()  # SONAMEs of other packages that it loads, by its own search path


def loading() -> frozenset[str]:
    """Return the packages that bring CUDA libraries without an extra, and load them when they are imported."""
    return frozenset(row.package for row in carriers.carriers() if row.loads and not row.extra)


@cache
def candidates(soname: str) -> tuple[PackageLibrary, ...]:
    """Return every package known to bring a library of this SONAME."""
    if policy.is_system(soname):  # for the many wheels that need nothing else, the tables are not read
        return ()
    toolkit = (
        PackageLibrary(entry.soname, entry.package, entry.folder, entry.cuda)
        for entry in libraries.by_soname(soname)
        if entry.kind == "toolkit"
    )
    others = (
        PackageLibrary(soname, row.package, row.folder, row.cuda, row.needs)
        for row in carriers.other_libraries()
        if soname in row.sonames
    )
    return (*toolkit, *others)


@cache
def carrying(soname: str) -> tuple[str, ...]:
    """Return the packages whose import loads a library of their own with this SONAME.

    Libraries of a CUDA toolkit, of any version, belong only to NVIDIA's packages.
    """
    if of_toolkit(soname):
        return ()
    return tuple(dict.fromkeys(row.package for row in carriers.carriers() if soname in row.carries))


@cache
def of_toolkit(soname: str) -> bool:
    """Return whether a SONAME is that of a CUDA library of any version: libcudart.so.9.0, libcudart.so.12."""
    stem = sonames.stem(soname)
    return any(sonames.stem(entry.soname) == stem for entry in libraries.toolkit_libraries())


@cache
def listed() -> frozenset[str]:
    """Return the packages whose libraries are all known by name: they have no others."""
    return carriers.nvidia_packages() | {row.package for row in carriers.other_libraries()}


def has_wheels(package: str, machine: str, *, musl: bool) -> bool:
    """Return whether pip finds wheels of a package for a processor and a C library; True for packages not of NVIDIA."""
    return package not in carriers.nvidia_packages() or (
        not musl and machine in carriers.machines_of_nvidia()
    )


def is_in_environment(package: str) -> bool:
    """Return whether a package installs its libraries into the environment's own lib folder, as Intel's do."""
    return any(f"{package}-".startswith(f"{name}-") for name in carriers.in_environment())


@cache
def major(package: str) -> int | None:
    """Return the one CUDA major that a toolkit package is for; None for another package."""
    majors = {entry.cuda for entry in _of_package(package)}
    return majors.pop() if len(majors) == 1 else None


@cache
def stems(package: str) -> frozenset[str]:
    """Return the names of a toolkit package's libraries without "lib" and what follows: "cudnn", "cudnn_ops"."""
    return frozenset(sonames.bare(each.soname) for each in _of_package(package))


@cache
def sonames_of(package: str) -> frozenset[str]:
    """Return the SONAMEs of a toolkit package in any release."""
    return frozenset(each.soname for each in _of_package(package))


@cache
def files(package: str) -> frozenset[str]:
    """Return the libraries of a toolkit package, each with its folder below site-packages."""
    return frozenset(f"{each.folder}/{each.soname}" for each in _of_package(package))


@cache
def of_other_releases(package: str, clauses: str) -> tuple[str, ...]:
    """Return the SONAMEs that a package has in other releases than the one that pip would install.

    That is the newest release which the clauses allow. It lacks a library if the library was not seen in it, or not in
    a release between it and those that were seen to have it. A row that names its releases lists all that have the
    library.
    """
    rows = [row for row in carriers.other_libraries() if row.package == package and row.versions]
    seen = {version for each in _of_package(package) for version in (each.first, each.last)}
    newest = version_clauses.newest_allowed(seen.union(*(row.known for row in rows)), clauses)
    if newest is None:  # no release meets all clauses
        return (
            *(each.soname for each in _of_package(package)),
            *(name for row in rows for name in row.sonames),
        )
    chosen, known = Version(newest), [Version(version) for version in seen]
    of_toolkit = (
        each.soname
        for each in _of_package(package)
        if any(chosen <= v < Version(each.first) or Version(each.last) < v <= chosen for v in known)
    )
    others = (row.sonames for row in rows if not version_clauses.allows(row.versions, newest))
    return (*of_toolkit, *(name for names in others for name in names))


@cache
def of_unseen_releases(package: str, clauses: str) -> tuple[str, ...]:
    """Return the SONAMEs of a toolkit package if clauses allow only releases that are unlike those seen.

    A release is like them if it is not newer than all of them and has the major of one of them: before CUDA 13,
    `nvidia-cublas` has only a release without any file.
    """
    seen = {Version(version) for each in _of_package(package) for version in (each.first, each.last)}
    listed = (*map(str, seen), *version_clauses.named(clauses), *version_clauses.below(clauses))
    allowed = (Version(each) for each in listed if version_clauses.allows(clauses, each))
    majors = {version.major for version in seen}
    if not seen or any(v <= max(seen) and v.major in majors and not v.is_prerelease for v in allowed):
        return ()
    return tuple(each.soname for each in _of_package(package))


@cache
def other_majors(soname: str) -> frozenset[str]:
    """Return the packages that bring the same library for other CUDA majors: cudart 12's is cudart 13's."""
    stem = sonames.stem(soname)
    own = {library.package for library in candidates(soname)}
    return frozenset(
        entry.package
        for entry in libraries.toolkit_libraries()
        if sonames.stem(entry.soname) == stem and entry.package not in own
    )


@cache
def with_requirements() -> frozenset[str]:
    """Return the packages whose requirements are in the tables."""
    return frozenset((METAPACKAGE, *(row.package for row in carriers.carriers())))


def _of_package(package: str) -> tuple[libraries.CudaLibrary, ...]:
    return _by_package().get(package, ())


@cache
def _by_package() -> Mapping[str, tuple[libraries.CudaLibrary, ...]]:
    found: dict[str, tuple[libraries.CudaLibrary, ...]] = {}
    for entry in libraries.toolkit_libraries():
        found[entry.package] = (*found.get(entry.package, ()), entry)
    return found


@cache
def requirements() -> Mapping[str, tuple[str, ...]]:
    """Return what each toolkit package requires."""
    return {entry.package: entry.requires for entry in libraries.toolkit_libraries()}
