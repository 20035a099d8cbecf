"""The folders and files of a runtime and of its user: their names, and whether others could put code into them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .values import Reason, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .driver import Probe

HOME = "_gpuforge"  # the folder in an import package that has the runtime, or in a kernels wheel only the kernels
GUARD = "_gpuforge_guard"  # the module beside it that refuses two builds of a package in one place
KERNELS, SOURCES = "kernels", "sources"  # folders in it, with a folder for each set
INDEX = "index.json"  # of a folder with kernels
RECIPE = "recipe.json"  # of a folder with sources
LISTING = "wheels.json"  # beside a runtime: the kernels wheels of its package
WHEEL = "wheel.json"  # in a kernels wheel: its content
KERNEL_HOME = "GPUFORGE_KERNEL_HOME"
_NO_HOME = "/nonexistent"  # the folder that never exists in Debian


def kernels(home: str, *name: str) -> str:
    return os.path.join(home, KERNELS, *name)


def sources(home: str, *name: str) -> str:
    return os.path.join(home, SOURCES, *name)


def home_of(kernels: str) -> str:
    return os.path.dirname(os.path.dirname(kernels))


def index(folder: str) -> str:
    return os.path.join(folder, INDEX)


def recipe(folder: str) -> str:
    return os.path.join(folder, RECIPE)


def names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name))]
    except OSError:
        return []


class Lookup(NamedTuple):
    name: str
    home: str
    package: str
    env: Mapping[str, str]
    machine: Probe | None = None


def variable(package: str, name: str) -> str:
    words = f"{package}_{name}" if package else name
    return "GPUFORGE_KERNELS_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in words).upper()


def kernel_home(env: Mapping[str, str]) -> str:
    cache = env.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):  # XDG's basedir-spec calls it invalid
        home = os.path.expanduser("~")  # stays "~" for an unknown user
        cache = os.path.join(home if os.path.isabs(home) else _NO_HOME, ".cache")
    return env.get(KERNEL_HOME) or os.path.join(cache, "gpuforge", "kernels")


def home_problem(env: Mapping[str, str]) -> Reason | None:
    """Return why the path in $GPUFORGE_KERNEL_HOME is not used: a relative path differs from program to program."""
    value = env.get(KERNEL_HOME, "")
    if not value or os.path.isabs(value):
        return None
    return Reason("relative-path", {"variable": KERNEL_HOME, "value": value})


def user_folder(package: str, name: str, env: Mapping[str, str]) -> str:
    return os.path.join(kernel_home(env), "user", package or "-", name)


class BuildUnusable(Refused):
    """There is a user build, but it cannot be used."""


def folders_above(folder: Path) -> list[Path]:
    """Return the folders above an object's: <home>/user/<package>, <home>/user and <home>."""
    return list(folder.parents)[:3]


def guard_place(folder: Path) -> None:
    """Raise BuildUnusable if others could put code into an object's folder, or replace it or a folder above it."""
    guard(folder)
    for above in folders_above(folder):
        guard(above, sticky=True)


def guard(path: Path, *, sticky: bool = False) -> None:
    """Raise BuildUnusable if others could put code into a folder or a file; a missing one is safe.

    With `sticky`, a folder with that bit is safe: there, users cannot rename the files of others.
    """
    try:
        found = path.stat()
    except OSError:
        return
    if found.st_uid not in (0, os.geteuid()):
        raise BuildUnusable(Reason("other-owner", {"path": str(path)}))
    if found.st_mode & stat.S_IWOTH and not (sticky and found.st_mode & stat.S_ISVTX):
        raise BuildUnusable(Reason("open-to-others", {"path": str(path)}))
