"""The names of the kernel sets and libraries of a package, which come from its wheel and its kernels wheels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from . import layout
from .index import LibraryIndex, Refused, read_libraries
from .look import kernels_wheels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .recipe import Recipe

_HERE = os.path.dirname(os.path.abspath(__file__))


class Contents(NamedTuple):
    """The names of the kernel sets, and of the other objects, which are libraries; both sorted.

    A set or library that stands in for another object is part of that object.
    """

    sets: tuple[str, ...]
    libraries: tuple[str, ...]


def contents(home: str = _HERE) -> Contents:
    """Return what the package has whose runtime is in `home`."""
    compiled = dict(_recipes(home))
    parts = {part for recipe in compiled.values() for part in (recipe.fallback, recipe.cpu)}
    shipped, libraries = set(), set(layout.names(layout.sources(home)))
    for name in layout.names(layout.kernels(home)):
        index = _libraries(layout.index(layout.kernels(home, name)))
        if index is None:
            shipped.add(name)
        elif isinstance(index.stands_in_for, str):
            libraries.add(index.stands_in_for or name)
    known = kernels_wheels(home)
    for name, each in known.sets.items() if known else ():
        if each.kind == "library":
            libraries.add(each.stands_in_for or name)
        else:
            shipped.add(name)
    sets = compiled.keys() | (shipped - parts)
    return Contents(tuple(sorted(sets)), tuple(sorted(libraries - sets)))


def _recipes(home: str) -> Iterator[tuple[str, Recipe]]:
    """Yield the recipes of kernel sets, without those that cannot be read."""
    for name in layout.names(layout.sources(home)):
        recipe = _recipe(layout.sources(home, name))
        if recipe is not None:
            yield name, recipe


def _recipe(folder: str) -> Recipe | None:
    from .recipe import read

    try:
        return read(folder)
    except Refused:
        return None


def _libraries(file: str) -> LibraryIndex | None:
    """Read an index, None for one that does not list libraries or cannot be read."""
    try:
        index = read_libraries(file)
    except Refused:
        return None
    return index if index and index.is_library else None
