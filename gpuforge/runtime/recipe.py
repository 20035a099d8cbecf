"""Reads a `recipe.json`: the sources of an object that users compile, and the toolchains to try in order."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from . import document, layout
from .arch import Arch
from .backends import backend_of
from .image import Image
from .index import Demands, Module, Refused, damaged, demands_of, other_schema, read_named, unreadable
from .sources import Sources

SCHEMA = 1
OPERATORS = {">=", "<=", ">", "<", "==", "!=", "==*", "!=*"}  # of `gpuforge.toolchains.version_ranges.Bound`


class ModuleRecipe(NamedTuple):
    """The sources of a set, by the toolchain's name, and the sets of the wheel that replace them."""

    name: str
    demands: Demands
    cpu: str  # a library for the CPU, "" for none
    sources: Mapping[str, Sources]

    @property
    def fallback(self) -> str:
        """The set of device images to use instead, "" for none."""
        return next(iter(self.demands.fallbacks), "")


class UserToolchain(NamedTuple):
    """How one toolchain is found here, and how it compiles; see `gpuforge.embedded.user_toolchain`."""

    name: str
    family: str
    version: str
    accepts: tuple[tuple[str, tuple[int, ...]], ...]
    programs: str
    answers: str
    places: tuple[str, ...]
    argv: tuple[str, ...]
    product: str
    offload: str
    runtimes: tuple[str, ...]
    install: Mapping[str, str]
    makes: str = "library"
    sources: tuple[str, ...] = ()  # in a set of modules: its own sources
    devices: tuple[str, ...] = ()  # the kinds of OpenCL's devices that it compiles for
    extensions: tuple[str, ...] = ()  # of OpenCL, that a device must have
    by_command: bool = False  # `argv` is the maintainer's own command, which begins with the program
    of_toolkit: bool = False  # its compiler belongs to a CUDA toolkit

    @property
    def needs_arch(self) -> bool:
        """Whether it compiles for one architecture: its compiler's default if none is given."""
        return self.of_toolkit and any("{arch}" in word for word in self.argv)

    @property
    def into_cache(self) -> bool:
        """Whether its output stays in the kernel cache, and is not a user build."""
        backend = backend_of(self.family)
        return backend is not None and backend.into_cache

    @property
    def program(self) -> str:
        """The compiler's name for people: "g++"; for a command, its program."""
        return self.argv[0] if self.by_command else self.family


class Compilation(NamedTuple):
    """The inputs of `compile` for an object, a library or a set of modules (`kind`): files have their sha256."""

    name: str
    kind: str
    demands: Demands
    sources: Mapping[str, str]
    includes: Mapping[str, str]
    toolchains: tuple[UserToolchain, ...]
    archs: tuple[Arch, ...]  # of machine code in the wheel


def read_demands(folder: str) -> Demands | None:
    """Return an object's demands on its libraries; None without a recipe. Raises Refused."""
    file = layout.recipe(folder)
    data = read_named(file)
    try:
        return None if data is None else demands_of(data)
    except document.Damaged as error:
        raise Refused(damaged(file, error)) from error


def read_compilation(folder: str) -> Compilation:
    """Return how an object is compiled; raises Refused."""
    file = layout.recipe(folder)
    try:
        data = document.read(file)
        _check_schema(file, data)
        return Compilation(
            document.text(data, "name"),
            document.text(data, "kind"),
            demands_of(data),
            _digests(data, "sources"),
            _digests(data, "includes"),
            tuple(map(_toolchain, document.tables(data, "toolchains"))),
            _archs(data),
        )
    except OSError as error:
        raise Refused(unreadable(file, error)) from error
    except document.Damaged as error:
        raise Refused(damaged(file, error)) from error


def read(folder: str) -> ModuleRecipe | None:
    """Return the recipe of a set of modules; None if there is none, or it is a library's. Raises Refused."""
    file = layout.recipe(folder)
    try:
        data = document.read(file)
        if document.text(data, "kind", "library") != "module":
            return None
        _check_schema(file, data)
        found = [_sources(folder, entry, data) for entry in document.tables(data, "toolchains")]
        name = document.text(data, "name")
        document.text(data, "abi")  # which a library's recipe may lack
        demands, cpu = demands_of(data), document.file_name(data, "cpu", "")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(unreadable(file, error)) from error
    except document.Damaged as error:
        raise Refused(damaged(file, error)) from error
    return ModuleRecipe(name, demands, cpu, {each.name: each for each in found})


def _archs(data: dict[str, Any]) -> tuple[Arch, ...]:
    """Return a recipe's architectures; empty if one cannot be read, as they only help without a GPU."""
    try:
        return tuple(map(Arch.parse, document.texts(data, "archs")))
    except (ValueError, document.Damaged):
        return ()


def _check_schema(file: str, data: dict[str, Any]) -> None:
    schema = document.whole(data, "schema")
    if schema != SCHEMA:
        raise Refused(other_schema(file, schema, SCHEMA))


def _sources(folder: str, entry: dict[str, Any], recipe: dict[str, Any]) -> Sources:
    digests, headers = _digests(recipe, "sources"), _digests(recipe, "includes")
    name, family = document.text(entry, "name"), document.text(entry, "family")
    backend = backend_of(family)
    images = (Image(backend.source),) if backend else ()
    modules = {}
    for source in document.texts(entry, "sources"):
        stem = os.path.splitext(os.path.basename(source))[0]
        if source not in digests:
            raise document.Damaged(f"'{source}' is not among its sources")
        place = os.path.join(folder, source)
        modules[stem] = Module(stem, source, place, digests[source], images)
    install = document.text(document.table(entry, "install"), "", "")
    added = _added(entry)
    argv = document.texts(entry, "argv")
    return Sources(name, family, argv, install, folder, modules, headers, *added)


def _added(entry: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a toolchain's `devices` and `extensions`, which the first wheels of this schema do not have."""
    devices, extensions = (
        document.texts(entry, key) if key in entry else () for key in ("devices", "extensions")
    )
    return devices, extensions


def _digests(recipe: dict[str, Any], key: str) -> dict[str, str]:
    found = {}
    for entry in document.tables(recipe, key):
        name = document.text(entry, "file")
        if os.path.isabs(name) or ".." in name.split("/"):
            raise document.Damaged(f"'{name}' leads out of its folder")
        found[name] = document.text(entry, "sha256")
    return found


def _toolchain(entry: dict[str, Any]) -> UserToolchain:
    text, texts = partial(document.text, entry), partial(document.texts, entry)
    install = document.table(entry, "install")
    devices, extensions = _added(entry)
    family = text("family")
    return UserToolchain(
        name=text("name"),
        family=family,
        version=text("version"),
        accepts=_accepts(entry),
        programs=text("programs"),
        answers=text("answers"),
        places=texts("places"),
        argv=texts("argv"),
        product=text("product"),
        offload=text("offload"),
        runtimes=texts("runtimes"),
        install={key: document.text(install, key) for key in install},
        makes=text("makes"),
        sources=texts("sources"),
        devices=devices,
        extensions=extensions,
        by_command=document.flag(entry, "by_command", family == "command"),  # earlier wheels have no flags
        of_toolkit=document.flag(entry, "of_toolkit", family == "nvcc"),
    )


def _accepts(entry: dict[str, Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    with suppress(KeyError, OverflowError, TypeError, ValueError):
        bounds = tuple((str(operator), tuple(map(int, numbers))) for operator, numbers in entry["accepts"])
        if OPERATORS.issuperset(operator for operator, _ in bounds):
            return bounds
    raise document.Damaged("'accepts' is not a list of bounds")
