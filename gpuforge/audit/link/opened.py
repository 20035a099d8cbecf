"""The CUDA libraries that an object opens by name at run time (dlopen), as far as its constants and the tables say."""

from collections.abc import Iterable
from functools import lru_cache

from gpuforge.audit.link import package_tables
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.version import minor_of


@lru_cache(maxsize=4096)
def opened_names(name: str, mentions: frozenset[str]) -> tuple[str, ...]:
    """Return the names under which an object of this file name, with these mentions, opens libraries of packages.

    An opener's parts come first; a library that it opens for some of its features only is among them.
    """
    found = dict.fromkeys(part for part, _ in _parts(name, mentions))
    found |= dict.fromkeys(each for each in sorted(mentions) if package_tables.candidates(each))
    found.pop(sonames.plain_name(name), None)
    return tuple(found)


def opens(binary: ElfObject) -> tuple[str, ...]:
    """Return the libraries of packages that an object opens by name."""
    return opened_names(binary.name, binary.mentions)


def parts(binary: ElfObject, *, always: bool) -> list[str]:
    """Return the libraries that NVIDIA's library opens by name: always, or for some of its features only."""
    return [part for part, is_always in _parts(binary.name, binary.mentions) if is_always == always]


def of_own_package(binary: ElfObject) -> list[str]:
    """Return the libraries of its own package that an object opens by names without a version, which it adds."""
    own = sonames.plain_name(binary.name)
    packages = {library.package for library in package_tables.candidates(own)}
    named = (f"{each}.{sonames.major(own)}" for each in binary.mentions if each.endswith(".so"))
    return sorted(_of(packages, named) - {own})


def _parts(name: str, mentions: frozenset[str]) -> list[tuple[str, bool]]:
    """Return the parts of an opener: those that its own constants name in full, else those of the table.

    Libraries for some features are those that its constants name and its package requires. cuDNN 9 adds the version
    to `libcudnn_ops.so` when it opens it.
    """
    own = sonames.plain_name(name)
    opener = libraries.opener(own)
    if opener is None:
        return []
    if not opener.always:
        return [(each, False) for each in sorted(mentions & _required(own, opener.opens))]
    packages = {library.package for library in package_tables.candidates(own)}
    composed = (each for part in opener.opens for each in (part, *(f"{part}.{v}" for v in _versions(own))))
    in_full = {each for each in mentions if sonames.unversioned(each) in opener.opens and each[-1].isdigit()}
    return [
        (each, True)
        for each in sorted((_of(packages, mentions) | in_full) - {own} or _of(packages, composed))
    ]


def _versions(name: str) -> tuple[str, str]:
    """Return the versions that may follow `.so.` in a part's name: "9" and "9.1" for libcudnn.so.9.1.0."""
    return sonames.major(name), minor_of(sonames.version(name))


def _of(packages: set[str], names: Iterable[str]) -> set[str]:
    """Return the names that are exactly SONAMEs of one of the packages."""
    return {
        n
        for n in names
        for library in package_tables.candidates(n)
        if library.soname == n and library.package in packages
    }


def _required(own: str, opened: Iterable[str]) -> set[str]:
    """Return the SONAMEs of libraries for features that NVIDIA's package of the opener requires."""
    packages = {package for entry in libraries.by_soname(own) for package in entry.requires}
    return {
        entry.soname
        for entry in libraries.toolkit_libraries()
        if entry.package in packages and sonames.unversioned(entry.soname) in opened
    }
