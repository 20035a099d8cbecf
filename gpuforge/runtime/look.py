"""Looks where the builds of a kernel set can be: what the environment names, what the user compiled, what is shipped.

A place that is there but cannot be used is a build with a problem: it is listed and explained, never passed over.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from .index import FILE, Index, Module, Refused, read_index
from .reason import Reason
from .resolve import Build, Image, Origin
from .wheels import installed, listing, none_installed

HOME = "GPUFORGE_KERNEL_HOME"
_FILES = (".fatbin", ".cubin", ".ptx")


class Place(NamedTuple):
    """One place with a build of a set: its contents, or the file that a variable names, or what is wrong with it."""

    origin: Origin
    path: str
    contents: Index | None = None
    file: str = ""
    variable: str = ""
    problem: Reason | None = None
    wheel: str = ""  # the kernels wheel that it is in, such as "saxpy-kernels-cu13"

    def module(self, name: str) -> Module | None:
        """Return the module of that name, None when this place has none; a file that was named serves for any."""
        if self.file:
            return Module(name, "", self.file, "", (Image("unread", self.variable, (0, 0)),))
        return self.contents.modules.get(name) if self.contents else None

    def build(self, name: str) -> Build:
        """Return what `resolve` judges for a module."""
        module = self.module(name)
        if self.problem or (self.contents is None and not self.file):
            return Build(self.origin, self.path, problem=self.problem, wheel=self.wheel)
        if module is None:
            known = ", ".join(sorted(self.contents.modules if self.contents else ())) or "none"
            facts = {"set": self.path, "name": name, "known": known}
            return Build(self.origin, self.path, problem=Reason("no-module", facts), wheel=self.wheel)
        return Build(self.origin, module.file, module.images, wheel=self.wheel)

    def trouble(self, name: str) -> Reason | None:
        """Return what is wrong with the file of a module, None when it can be read and is the one indexed."""
        module = self.module(name)
        try:
            if module:
                module.read()
        except Refused as refused:
            return refused.reason
        return None


def variable(package: str, name: str) -> str:
    """Return the variable that names a set's kernels: GPUFORGE_KERNELS_SAXPY_DEFAULT_KERNELS."""
    words = f"{package}_{name}" if package else name
    return "GPUFORGE_KERNELS_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in words).upper()


def kernel_home(env: Mapping[str, str]) -> str:
    """Return where this user's kernels are kept: $GPUFORGE_KERNEL_HOME, else below the user's cache folder."""
    return env.get(HOME) or os.path.join(
        env.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "gpuforge", "kernels"
    )


def user_folder(package: str, name: str, env: Mapping[str, str]) -> str:
    """Return where `compile` puts the user's build of a set."""
    return os.path.join(kernel_home(env), "user", package or "-", name)


def look(package: str, name: str, shipped: str, env: Mapping[str, str]) -> tuple[Place, ...]:
    """Return every place that has, or should have, a build of a set, in the order in which they are tried."""
    places = []
    named = variable(package, name)
    if env.get(named):
        places.append(_explicit(env[named], named))
    user = user_folder(package, name, env)
    if os.path.isdir(user):
        places.append(_own_folder(user))
    return (*places, *_shipped(package, name, shipped))


def _shipped(package: str, name: str, folder: str) -> tuple[Place, ...]:
    """Return the places in the wheel itself and in its kernels wheels, those for the newest CUDA first."""
    if os.path.isdir(folder):
        return (_folder(Origin.SHIPPED, folder),)
    home = os.path.dirname(os.path.dirname(folder))
    known = listing(home)
    if known is None or name not in known.sets:
        return (Place(Origin.SHIPPED, folder, problem=Reason("no-set", {"name": name})),)
    places = []
    for wheel in installed(home, package):
        inside, problem = os.path.join(wheel.home, "kernels", name), wheel.problem_of(name)
        place = Place(Origin.SHIPPED, inside, problem=problem) if problem else _folder(Origin.SHIPPED, inside)
        places.append(place._replace(wheel=wheel.distribution))
    return tuple(places) or (Place(Origin.SHIPPED, folder, problem=none_installed(known)),)


def _explicit(path: str, named: str) -> Place:
    if os.path.isfile(os.path.join(path, FILE)):
        return _folder(Origin.EXPLICIT, path)
    if os.path.isfile(path) and path.endswith(_FILES):
        return Place(Origin.EXPLICIT, path, file=path, variable=named)
    reason = Reason("not-kernels", {"variable": named, "file": path})
    return Place(Origin.EXPLICIT, path, problem=reason)


def _own_folder(path: str) -> Place:
    """Return the place of the user's build, with a problem where others could have put code into it."""
    from pathlib import Path

    from .builds import BuildUnusable, guard

    try:
        guard(Path(path))
    except BuildUnusable as error:
        return Place(Origin.USER_BUILD, path, problem=Reason("unusable", {"problem": str(error)}))
    return _folder(Origin.USER_BUILD, path)


def _folder(origin: Origin, path: str) -> Place:
    try:
        return Place(origin, path, contents=read_index(os.path.join(path, FILE)))
    except Refused as refused:
        return Place(origin, path, problem=refused.reason)
