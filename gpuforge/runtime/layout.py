"""The places of kernels and sources in the folder of a runtime, and the names of the files that list them."""

from __future__ import annotations

import os

HOME = "_gpuforge"  # the folder in an import package that has the runtime, or in a kernels wheel only the kernels
GUARD = "_gpuforge_guard"  # the module beside it that refuses two builds of a package in one place
KERNELS, SOURCES = "kernels", "sources"  # folders in it, with a folder for each set
INDEX = "index.json"  # of a folder with kernels
RECIPE = "recipe.json"  # of a folder with sources
LISTING = "wheels.json"  # beside a runtime: the kernels wheels of its package
WHEEL = "wheel.json"  # in a kernels wheel: its content


def kernels(home: str, *name: str) -> str:
    """Return the folder with the kernels of a set or a library; without a name, the folder of all."""
    return os.path.join(home, KERNELS, *name)


def sources(home: str, *name: str) -> str:
    """Return the folder with the sources of an object; without a name, the folder of all."""
    return os.path.join(home, SOURCES, *name)


def home_of(kernels: str) -> str:
    """Return the runtime's folder, of that with a set's kernels."""
    return os.path.dirname(os.path.dirname(kernels))


def index(folder: str) -> str:
    """Return the file that lists the kernels in a folder."""
    return os.path.join(folder, INDEX)


def recipe(folder: str) -> str:
    """Return the file that lists the sources in a folder."""
    return os.path.join(folder, RECIPE)


def names(folder: str) -> list[str]:
    """Return the names of the folders in a folder; empty if it does not exist."""
    try:
        return [name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name))]
    except OSError:
        return []
