"""Finds the builds of a kernel set: those that the environment names, that the user compiled, or that are shipped.

An existing place that cannot be used is a build with a problem: it is listed and explained, not skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from . import layout
from .build_place import BuildPlace
from .image import HOST_LIBRARY, Image, Origin
from .index import Refused, read_index
from .lookup import Lookup, home_problem, user_folder, variable
from .reason import Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .recipe import Recipe
    from .wheels import Listing

_FILES = (".fatbin", ".cubin", ".ptx")


def look(package: str, name: str, shipped: str, env: Mapping[str, str]) -> tuple[BuildPlace, ...]:
    """Return every place that has, or should have, a build of a set, in the order in which they are tried."""
    home = layout.home_of(shipped)
    lookup = Lookup(name, home, package, env)
    recipe, problem = _recipe(layout.sources(home, name))
    if recipe is None:
        explicit = _explicit(lookup, "")
        own = _own(lookup)
        there = _shipped(lookup, shipped, problem)
        known = kernels_wheels(home)
        apart = known.sets.get(name) if known else None
        cpu = apart.cpu if apart else next((place.contents.cpu for place in there if place.contents), "")
        return (*explicit, *own, *there, *_cpu(lookup, cpu, ""))
    from .candidates import identity_of

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


def _recipe(folder: str) -> tuple[Recipe | None, Reason | None]:
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
    from .backends.table import backend_of

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
        from .candidates import cpu_library
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
    from .candidates import built_library

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
        from .candidates import explicit_library
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
    from pathlib import Path

    from .private import BuildUnusable, guard, guard_place

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
