"""Where a wheel's files come to lie, and where the dynamic linker would look from there. Nothing is installed.

Paths are virtual: `/env` is the environment, `/env/lib/python/site-packages` its packages.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from gpuforge.audit.route import Route, SearchKind
from gpuforge.binary.facts import ElfObject

ENVIRONMENT = "/env"
SITE = f"{ENVIRONMENT}/lib/python/site-packages"
# as one Python calls it
_SITES = re.compile(rf"^{ENVIRONMENT}/lib(?:64)?/python3\.\d+t?/site-packages(?=/|$)")
# Folders that mean the same on every machine, where they exist.
SHARED = (
    "/usr/lib",
    "/usr/local/lib",
    "/lib",
    "/usr/local/cuda",
    "/usr/local/nvidia",
    "/opt/rocm",
    "/opt/nvidia",
)
_DATA = re.compile(r"(?=[^/]+?-[^/])[^/]+\.data/(purelib|platlib|data|scripts|headers)/(.+)")
_SCHEME = {"purelib": SITE, "platlib": SITE, "data": "/env", "scripts": "/env/bin", "headers": "/env/include"}


class SearchEntry(NamedTuple):
    """One folder that the linker looks into for an object, and the entry that names it."""

    folder: str
    route: Route


@cache
def install_path(member: str) -> str:
    """Return where pip puts a member of a wheel (binary distribution format, "The .data directory")."""
    match = _DATA.fullmatch(member)
    return _SITES.sub(SITE, f"{_SCHEME[match[1]]}/{match[2]}") if match else f"{SITE}/{member}"


def entries(path: str | None) -> tuple[str, ...]:
    """Split an RPATH or RUNPATH; an empty one has no entries, as in glibc (elf/dl-load.c, decompose_rpath)."""
    return tuple(path.split(":")) if path else ()


def written(found: ElfObject) -> Iterator[Route]:
    """Yield each entry of an object's search paths as it is written there, also those that the linker does not use."""
    yield from (Route("RPATH", entry) for entry in dict.fromkeys(entries(found.rpath)))
    yield from (Route("RUNPATH", entry) for entry in dict.fromkeys(entries(found.runpath)))


def search(loader: ElfObject, ancestors: Iterable[ElfObject]) -> Iterator[SearchEntry]:
    """Yield the folders in which glibc looks for what `loader` needs, in order, before the system's own.

    An object with a RUNPATH uses that alone; one without uses its own RPATH and those of the objects that
    led to it, as far as they have no RUNPATH (ld.so(8)). Entries that lead nowhere fixed are left out.
    """
    if loader.runpath:
        yield from _folders(loader, loader.runpath, "RUNPATH")
        return
    for index, found in enumerate((loader, *ancestors)):
        if found.rpath and not found.runpath:
            yield from _folders(found, found.rpath, "RPATH", found.name if index else "")


def _folders(found: ElfObject, path: str, kind: SearchKind, via: str = "") -> tuple[SearchEntry, ...]:
    return _resolved(found.file, path, kind, via)


@cache  # the same object is searched for in every load set
def _resolved(file: str, path: str, kind: SearchKind, via: str) -> tuple[SearchEntry, ...]:
    return tuple(_entries(posixpath.dirname(install_path(file)), path, kind, via))


def _entries(origin: str, path: str, kind: SearchKind, via: str) -> Iterator[SearchEntry]:
    for entry in entries(path):
        folder = entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        if folder.startswith("/") and "$" not in folder:
            yield SearchEntry(_SITES.sub(SITE, posixpath.normpath(folder)), Route(kind, entry, via))
