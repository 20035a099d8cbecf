"""Computes where a wheel's files would be installed, and where the dynamic linker would look from there.

Paths are virtual: `/env` is the environment, `/env/lib/python/site-packages` its packages.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Literal, NamedTuple, Self

from packaging.tags import Tag

from gpuforge.binary.facts import ElfObject
from gpuforge.cpython import CPython

SearchKind = Literal["RPATH", "RUNPATH"]


class Route(NamedTuple):
    """The way by which the dynamic linker finds a library."""

    kind: SearchKind | Literal["import", "loaded", "system", "driver"]
    entry: str = ""  # of a search path
    via: str = ""  # the object with the RPATH, if not the loader itself
    package: str = ""  # the package that has to be imported before, as its import loads the library
    loaded_by: str = ""  # the object that has loaded it before; "" if it is the module that is imported

    def __str__(self) -> str:
        """Write it as linkers and tools do: "RUNPATH $ORIGIN/../x", "RPATH $ORIGIN of libx.so", "import torch"."""
        match self.kind:
            case "loaded":
                return f"loaded before it by {self.loaded_by}" if self.loaded_by else "loaded before it"
            case "import":
                return f"import {self.package}"
            case "system" | "driver":
                return f"the {self.kind}"
        return f"{self.kind} {self.entry}" + (f" of {self.via}" if self.via else "")

    @property
    def is_path(self) -> bool:
        """Whether a search path of an object leads to the library."""
        return self.kind in {"RPATH", "RUNPATH"}


def by_import(package: str) -> Route | None:
    """Return the route to a library that was loaded by importing a package; None without a package."""
    return Route("import", package=package) if package else None


# setuptools (build/lib.linux-x86_64-cpython-310, build/temp.…), scikit-build, CMake and Meson
_FOLDER = re.compile(
    r"(?:^|.*?/)(?:build/(?:(?:lib|temp|bdist)\.(?:linux|macosx|win|mingw)[^/]*|scripts-3\.\d+)"
    r"|_skbuild/[^/]+|CMakeFiles|meson-(?:private|logs|info))(?=/)"
)
_MARKS = ("build/", "_skbuild/", "CMakeFiles/", "meson-")  # a faster test than the pattern


def left_over_folder(member: str) -> str:
    """Return the left-over folder of a build that a member of a wheel lies in; "" for other members."""
    if not any(mark in member for mark in _MARKS):
        return ""
    found = _FOLDER.match(member)
    return found[0] if found else ""


ENVIRONMENT = "/env"
SITE = f"{ENVIRONMENT}/lib/python/site-packages"
EVERYWHERE = frozenset(
    {ENVIRONMENT, f"{ENVIRONMENT}/bin", f"{ENVIRONMENT}/lib", f"{ENVIRONMENT}/lib/python", SITE}
)
# its path in one Python
_SITES = re.compile(rf"^({ENVIRONMENT}/lib(?:64)?/python3\.\d+t?)/site-packages(?=/|$)")
_ORIGIN = re.compile(r"\$\{ORIGIN\}|\$ORIGIN(?!\w)", re.ASCII)
# Folders that are the same on every machine, if they exist.
_SHARED = (
    "/usr/lib",
    "/usr/local/lib",
    "/lib",
    "/usr/local/cuda",
    "/usr/local/nvidia",
    "/opt/rocm",
    "/opt/nvidia",
)
_DATA = re.compile(r"(?=[^/]+?-[^/])[^/]+\.data/(purelib|platlib|data|scripts|headers)/(.+)")
# installers put headers into a folder below include/, or below include/site/python3.X/, of the project's name
_SCHEME = {
    "purelib": SITE,
    "platlib": SITE,
    "data": "/env",
    "scripts": "/env/bin",
    "headers": "/env/include/?",
}


class SearchEntry(NamedTuple):
    """One folder that the linker searches for an object, and the entry that names it."""

    folder: str
    route: Route
    through: tuple[str, ...] = ()  # folders on the path to it, which have to exist, too


@cache
def install_path(member: str) -> str:
    """Return where pip puts a member of a wheel (binary distribution format, "The .data directory")."""
    match = _DATA.fullmatch(member)
    return _SITES.sub(SITE, f"{_SCHEME[match[1]]}/{match[2]}") if match else f"{SITE}/{member}"


class Folder(NamedTuple):
    """A folder: its path below the packages or, if it is not there, below the environment; else the absolute one."""

    path: str
    among_packages: bool

    @classmethod
    def of(cls, path: str) -> Self:
        """Return the place of an absolute virtual path."""
        for root, among in ((SITE, True), (ENVIRONMENT, False)):
            if f"{path}/".startswith(f"{root}/"):
                return cls(path[len(root) + 1 :], among)
        return cls(path, among_packages=False)

    @property
    def top(self) -> str:
        """The first folder below the packages: that of an import package; "" for places that are not there."""
        return self.path.partition("/")[0] if self.among_packages else ""

    def __str__(self) -> str:
        return f"site-packages/{self.path}".rstrip("/") if self.among_packages else self.path


@cache
def folder_of_python(member: str) -> str:
    """Return the folder of the one Python whose packages a member of `.data/data` is laid among; "" for others."""
    match = _DATA.fullmatch(member)
    found = match and _SITES.match(f"{_SCHEME[match[1]]}/{match[2]}")
    return found[1].replace("/lib64/", "/lib/") if found else ""


def python_folder(tags: Iterable[Tag]) -> str:
    """Return the folder of the one Python that a wheel is for; "" for a wheel for several."""
    abis = (CPython.of_tag(tag.abi) for tag in tags if tag.abi.startswith(tag.interpreter))
    pythons = {python for python in abis if python}
    return f"{ENVIRONMENT}/lib/python{pythons.pop()}" if len(pythons) == 1 else ""


def is_moved(member: str) -> bool:
    """Return whether pip installs a member after those in the root of the wheel, and so may overwrite them."""
    return install_path(member) != f"{SITE}/{member}"


def is_shared(folder: str) -> bool:
    """Return whether a folder is the same on every machine, if it exists: not one of a certain Python."""
    return folder.startswith(_SHARED) and "/python3." not in folder


def expanded(entry: str, origin: str) -> str:
    """Return an entry of a search path with $ORIGIN replaced by its object's folder (glibc, elf/dl-load.c, is_dst)."""
    return _ORIGIN.sub(lambda _: origin, entry)


def written(binary: ElfObject) -> Iterator[Route]:
    """Yield each entry of an object's search paths as written, also those that the linker does not use."""
    yield from (Route("RPATH", entry) for entry in dict.fromkeys(binary.rpath or ()))
    yield from (Route("RUNPATH", entry) for entry in dict.fromkeys(binary.runpath or ()))


def search(loader: ElfObject, ancestors: Iterable[ElfObject], *, musl: bool = False) -> Iterator[SearchEntry]:
    """Yield the folders in which glibc looks for the libraries that `loader` needs, in order, before the system's own.

    An object with a RUNPATH uses only that. One without uses its own RPATH and those of the objects that loaded it, if
    they have no RUNPATH (ld.so(8)). Entries that do not lead to a fixed place are left out. musl ignores a path with a
    variable other than $ORIGIN as a whole (ldso/dynlink.c, fixup_rpath); it would also use RUNPATHs of the objects that
    loaded it, but what depends on these is reported.
    """
    if loader.runpath is not None:
        if not (musl and _has_other_variables(loader.runpath)):
            yield from _resolved(loader.file, loader.runpath, "RUNPATH")
        return
    for index, found in enumerate((loader, *ancestors)):
        if found.rpath and found.runpath is None and not (musl and _has_other_variables(found.rpath)):
            yield from _resolved(found.file, found.rpath, "RPATH", found.name if index else "")


def _has_other_variables(path: Iterable[str]) -> bool:
    return any("$" in _ORIGIN.sub("", entry) for entry in path)


@cache  # the same object is searched for in every load set
def _resolved(file: str, path: tuple[str, ...], kind: SearchKind, via: str = "") -> tuple[SearchEntry, ...]:
    origin = posixpath.dirname(install_path(file))
    folders = ((entry, expanded(entry, origin)) for entry in path)
    return tuple(
        SearchEntry(
            _SITES.sub(SITE, posixpath.normpath(folder)),
            Route(kind, entry, via),
            tuple(_through(folder, origin)),
        )
        for entry, folder in folders
        if folder.startswith("/") and "$" not in folder
    )


def _through(folder: str, origin: str) -> Iterator[str]:
    """Yield the folders that a path goes through and leaves by `..`: the kernel follows it step by step."""
    behind = folder.removeprefix(origin).lstrip("./")
    if ".." not in behind and "python3." not in behind:
        return
    at = "/"
    for part in (*folder.split("/"), "."):
        if part == ".." and not f"{origin}/".startswith(f"{at.rstrip('/')}/"):
            yield _SITES.sub(SITE, at)
        at = posixpath.normpath(posixpath.join(at, part))
        if match := _SITES.fullmatch(at):
            yield match[1]
