"""Finds the builds of a kernel set: those that the environment names, that the user compiled, or that are shipped.

An existing place that cannot be used is a build with a problem: it is listed and explained, not skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from . import layout
from .layout import BuildUnusable, Lookup, guard, guard_place, home_problem, user_folder, variable
from .values import BuildPlace, Image, Origin, Reason, Refused, place_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .recipe import Recipe
    from .wheels import Listing


_FILES = (".fatbin", ".cubin", ".ptx")


def places_of(package: str, name: str, shipped: str, env: Mapping[str, str]) -> tuple[BuildPlace, ...]:
    home = layout.home_of(shipped)
    lookup = Lookup(name, home, package, env)
    recipe, problem = _recipe_of(layout.sources(home, name))
    if recipe is None:
        there = _shipped(lookup, shipped, problem)
        known = kernels_wheels(home)
        apart = known.sets.get(name) if known else None
        cpu = apart.cpu if apart else next((place.contents.cpu for place in there if place.contents), "")
        return (*_explicit(lookup, ""), *_own(lookup), *there, *_cpu(lookup, cpu, ""))
    from .libraries import built_place, identity_of

    abi, fallback = identity_of(recipe.demands), layout.kernels(home, recipe.fallback)
    places = (
        *_explicit(lookup, abi),
        built_place(lookup, abi),
        *recipe.places(),
        *(_shipped(lookup, fallback, None) if recipe.fallback else ()),
        *_cpu(lookup, recipe.cpu, abi),
    )
    return tuple(sorted(places, key=lambda place: place.origin))


def kernels_wheels(home: str) -> Listing | None:
    try:
        from .wheels import listing
    except ImportError:  # there is none, or another wheel's
        return None
    return listing(home)


def _shipped(lookup: Lookup, folder: str, problem: Reason | None) -> tuple[BuildPlace, ...]:
    if os.path.isdir(folder):
        return (place_in(Origin.SHIPPED, folder),)
    if kernels_wheels(lookup.home):
        from .wheels import places_of as apart

        found = apart(lookup.home, lookup.package, folder)
        if found:
            return found
    problem = problem or Reason("no-set", {"name": os.path.basename(folder)})
    return (BuildPlace(Origin.SHIPPED, folder, problem=problem),)


def _cpu(lookup: Lookup, name: str, abi: str | Reason) -> tuple[BuildPlace, ...]:
    if not name:
        return ()
    try:
        from .libraries import cpu_places
    except ImportError:  # another wheel's set
        return (_left_out(Origin.CPU, name),)
    return cpu_places(lookup, name, abi)


def _left_out(origin: Origin, file: str) -> BuildPlace:
    return BuildPlace(origin, file, file=file, image=Image("library"), problem=Reason("part-left-out"))


def _recipe_of(folder: str) -> tuple[Recipe | None, Reason | None]:
    if not os.path.exists(layout.recipe(folder)):
        return None, None
    try:
        from .recipe import read
    except ImportError:  # another wheel's sources
        return None, Reason("part-left-out")
    try:
        return read(folder), None
    except Refused as refused:
        return None, refused.reason


def _explicit(lookup: Lookup, abi: str | Reason) -> Iterator[BuildPlace]:
    """Yield the place that the environment names, if it names one."""
    named = variable(lookup.package, lookup.name)
    path = lookup.env.get(named)
    if not path:
        return
    if os.path.isfile(layout.index(path)):
        yield place_in(Origin.EXPLICIT, path)
    elif os.path.isfile(path) and path.endswith(_FILES):
        yield BuildPlace(Origin.EXPLICIT, path, file=path, image=Image("unread", variable=named))
    elif os.path.isfile(path) and path.endswith(".so"):
        try:
            from .libraries import explicit_place
        except ImportError:
            yield _left_out(Origin.EXPLICIT, path)
        else:
            yield explicit_place(lookup, abi)._replace(path=path)
    else:
        problem = Reason("not-kernels", {"variable": named, "file": path})
        yield BuildPlace(Origin.EXPLICIT, path, problem=problem)


def _own(lookup: Lookup) -> Iterator[BuildPlace]:
    """Yield the place of the user's build, with a problem if others could have put code into it."""
    wrong = home_problem(lookup.env)
    if wrong:
        yield BuildPlace(Origin.USER_BUILD, "", problem=wrong)
        return
    path = user_folder(lookup.package, lookup.name, lookup.env)
    if not os.path.isdir(path):
        return

    try:
        guard_place(Path(path))
        guard(Path(layout.index(path)))  # it has the digests of all other files
    except BuildUnusable as error:
        yield BuildPlace(Origin.USER_BUILD, path, problem=error.reason)
    else:
        yield place_in(Origin.USER_BUILD, path)


_HERE = os.path.dirname(os.path.abspath(__file__))


class Contents(NamedTuple):
    sets: tuple[str, ...]
    libraries: tuple[str, ...]


def contents(home: str = _HERE) -> Contents:
    compiled = dict(_recipes(home))
    parts = {part for recipe in compiled.values() for part in (recipe.fallback, recipe.cpu)}
    shipped, libraries = set(), set(layout.names(layout.sources(home)))
    for name in layout.names(layout.kernels(home)):
        stood_for = _stands_in_for(name, layout.index(layout.kernels(home, name)))
        if stood_for is None:
            shipped.add(name)
        elif stood_for:
            libraries.add(stood_for)
    known = kernels_wheels(home)
    for name, each in known.sets.items() if known else ():
        if each.kind == "library":
            libraries.add(each.stands_in_for or name)
        else:
            shipped.add(name)
    sets = compiled.keys() | (shipped - parts)
    return Contents(tuple(sorted(sets)), tuple(sorted(libraries - sets)))


def _recipes(home: str) -> Iterator[tuple[str, Recipe]]:
    for name in layout.names(layout.sources(home)):
        recipe = _readable_recipe(layout.sources(home, name))
        if recipe is not None:
            yield name, recipe


def _readable_recipe(folder: str) -> Recipe | None:
    from .recipe import read

    try:
        return read(folder)
    except Refused:
        return None


def _stands_in_for(name: str, file: str) -> str | None:
    """Return the object whose libraries an index lists, None for an index of something else."""
    try:
        from .libraries import read_libraries
    except ImportError:  # this wheel has no libraries
        return None
    try:
        index = read_libraries(file)
    except Refused:
        return None
    if index is None or not index.is_library:
        return None
    return index.stands_in_for or name if isinstance(index.stands_in_for, str) else ""
