"""Finds the builds of a kernel set: those that the environment names, that the user compiled, or that are shipped.

An existing place that cannot be used is a build with a problem: it is listed and explained, not skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from . import layout
from .index import BuildPlace, read_index
from .layout import BuildUnusable, Lookup, guard, guard_place, home_problem, user_folder, variable
from .values import HOST_LIBRARY, Image, Origin, Reason, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .recipe import Recipe
    from .wheels import Listing


_FILES = (".fatbin", ".cubin", ".ptx")


def places_of(package: str, name: str, shipped: str, env: Mapping[str, str]) -> tuple[BuildPlace, ...]:
    """Return every place that has, or should have, a build of a set, in the order in which they are tried."""
    home = layout.home_of(shipped)
    lookup = Lookup(name, home, package, env)
    recipe, problem = _recipe_of(layout.sources(home, name))
    if recipe is None:
        explicit = _explicit(lookup, "")
        own = _own(lookup)
        there = _shipped(lookup, shipped, problem)
        known = kernels_wheels(home)
        apart = known.sets.get(name) if known else None
        cpu = apart.cpu if apart else next((place.contents.cpu for place in there if place.contents), "")
        return (*explicit, *own, *there, *_cpu(lookup, cpu, ""))
    from .libraries import identity_of

    abi, fallback = identity_of(recipe.demands), layout.kernels(home, recipe.fallback)
    places = (
        *_explicit(lookup, abi),
        _built(lookup, abi),
        *_here(recipe),
        *(_shipped(lookup, fallback, None) if recipe.fallback else ()),
        *_cpu(lookup, recipe.cpu, abi),
    )
    return tuple(sorted(places, key=lambda place: place.origin))


def kernels_wheels(home: str) -> Listing | None:
    """Return the list of kernels wheels of the package whose runtime is in `home`; None if it has none."""
    if not os.path.isfile(os.path.join(home, layout.LISTING)):
        return None
    try:
        from .wheels import listing
    except ImportError:  # another wheel's list
        return None
    return listing(home)


def _shipped(lookup: Lookup, folder: str, problem: Reason | None) -> tuple[BuildPlace, ...]:
    """Return the places in the wheel itself and in its kernels wheels, those for the newest CUDA first."""
    if os.path.isdir(folder):
        return (_folder(Origin.SHIPPED, folder),)
    name = os.path.basename(folder)
    known = kernels_wheels(lookup.home)
    if known is None or name not in known.sets:
        return (BuildPlace(Origin.SHIPPED, folder, problem=problem or Reason("no-set", {"name": name})),)
    from .wheels import installed, none_installed

    places = []
    for wheel in installed(lookup.home, lookup.package):
        inside, refused = layout.kernels(wheel.home, name), wheel.problem_of(name)
        broken = BuildPlace(Origin.SHIPPED, inside, problem=refused)
        place = broken if refused else _folder(Origin.SHIPPED, inside)
        places.append(place._replace(wheel=wheel.distribution))
    return tuple(places) or (BuildPlace(Origin.SHIPPED, folder, problem=none_installed(known)),)


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


def _here(recipe: Recipe) -> Iterator[BuildPlace]:
    """Yield the places of the sources that back ends compile at their first use, by their first toolchain each."""
    from .backends import backend_of

    firsts = {toolchain.family: toolchain for toolchain in reversed(recipe.toolchains)}
    for family, toolchain in firsts.items():
        backend, sources = backend_of(family), recipe.sources_of(toolchain)
        if backend:
            contents = sources.contents(recipe.name)
            yield BuildPlace(backend.origin, sources.folder, contents=contents, sources=sources)


def _cpu(lookup: Lookup, name: str, abi: str | Reason) -> Iterator[BuildPlace]:
    """Yield the places of the library that does a set's work on the CPU, if it has one."""
    if not name:
        return
    try:
        from .libraries import cpu_library
    except ImportError:  # another wheel's set
        yield BuildPlace(Origin.CPU, name, file=name, image=HOST_LIBRARY, problem=Reason("part-left-out"))
        return
    for build in cpu_library(lookup, name, abi):
        image = build.images[0] if build.images else HOST_LIBRARY
        yield BuildPlace(
            *(Origin.CPU, build.place),
            file=build.place,
            image=image,
            problem=build.problem,
            wheel=build.wheel,
        )


def _built(lookup: Lookup, abi: str | Reason) -> BuildPlace:
    """Return the place of the user build of a set's sources: images, or a library for the CPU."""
    from .libraries import built_library

    candidate = built_library(lookup, abi)
    file, problem = candidate.build.place, candidate.build.problem
    if problem is None and os.path.isdir(file):
        return _folder(Origin.USER_BUILD, file)
    return BuildPlace(Origin.USER_BUILD, file, file=file, image=HOST_LIBRARY, problem=problem)


def _explicit(lookup: Lookup, abi: str | Reason) -> Iterator[BuildPlace]:
    """Yield the place that the environment names, if it names one."""
    named = variable(lookup.package, lookup.name)
    path = lookup.env.get(named)
    if not path:
        return
    if os.path.isfile(layout.index(path)):
        yield _folder(Origin.EXPLICIT, path)
    elif os.path.isfile(path) and path.endswith(_FILES):
        yield BuildPlace(Origin.EXPLICIT, path, file=path, image=Image("unread", variable=named))
    elif os.path.isfile(path) and path.endswith(".so"):
        yield _explicit_library(lookup, path, abi)
    else:
        problem = Reason("not-kernels", {"variable": named, "file": path})
        yield BuildPlace(Origin.EXPLICIT, path, problem=problem)


def _explicit_library(lookup: Lookup, path: str, abi: str | Reason) -> BuildPlace:
    try:
        from .libraries import explicit_library
    except ImportError:
        problem = Reason("part-left-out")
        return BuildPlace(Origin.EXPLICIT, path, file=path, image=HOST_LIBRARY, problem=problem)
    (build,) = [candidate.build for candidate in explicit_library(lookup, abi)]
    return BuildPlace(Origin.EXPLICIT, path, file=build.place, image=HOST_LIBRARY, problem=build.problem)


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
        yield _folder(Origin.USER_BUILD, path)


def _folder(origin: Origin, path: str) -> BuildPlace:
    try:
        return BuildPlace(origin, path, contents=read_index(layout.index(path)))
    except Refused as refused:
        return BuildPlace(origin, path, problem=refused.reason)


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
    """Yield the recipes of kernel sets, without those that cannot be read."""
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
