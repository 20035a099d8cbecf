"""Reads a `recipe.json`: the sources of an object that users compile, and the toolchains to try in order."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from . import document, layout
from .arch import Arch
from .backends import BACKENDS, Backend
from .libraries import Demands, demands_of
from .placeholders import fill
from .signature import plain_name
from .values import (
    BuildPlace,
    CompiledBy,
    Image,
    Index,
    Module,
    Refused,
    damaged,
    other_schema,
    unreadable,
)

SCHEMA = 1
OPERATORS = {">=", "<=", ">", "<", "==", "!=", "==*", "!=*"}  # of `gpuforge.toolchains.user_compilers.Bound`


class Sources(NamedTuple):
    """A toolchain's part of a set: its options, its modules' sources, and the headers that they include.

    In `options`, `{arch}` is the compute capability ("90"), and `{folders}` each folder with sources or headers.
    """

    family: str
    options: tuple[str, ...]
    install: str  # the command to install their compiler
    folder: str
    modules: Mapping[str, Module]
    headers: Mapping[str, str]  # sha256 by name
    devices: tuple[str, ...] = ()  # the kinds of OpenCL's devices that they are compiled for; empty for any
    extensions: tuple[str, ...] = ()  # of OpenCL, that a device must have

    def contents(self, name: str) -> Index:
        """Return them in the form of a place's contents."""
        modules = {name: (each,) for name, each in self.modules.items()}
        return Index(name, CompiledBy(self.family), "", modules)

    def filled(self, arch: str = "") -> tuple[str, ...]:
        """Return the options for an architecture; those with folders are filled by `with_folders`."""
        return tuple(fill(self.options, {"arch": (arch,), "folders": ()}))

    def with_folders(self) -> tuple[str, ...]:
        """Return the options with folders, which are not part of a key, as the files there are."""
        names = [*self.headers, *(os.path.relpath(m.file, self.folder) for m in self.modules.values())]
        folders = sorted({os.path.dirname(os.path.join(self.folder, name)) for name in names} | {self.folder})
        return tuple(fill([word for word in self.options if "{folders}" in word], {"folders": folders}))

    def included(self) -> dict[str, bytes]:
        """Return the headers' contents by their names; raises Refused for one that is missing or was changed."""
        found = {}
        for name, expected in self.headers.items():
            file = os.path.join(self.folder, name)
            found[name] = Module(name, name, file, expected, ()).read()
        return found

    def mentions(self, module: Module, name: str) -> bool:
        """Return whether a source or its headers may have a kernel: its name is in them, or they join words."""
        word = re.compile(rb"\b" + re.escape(plain_name(name).encode(errors="replace")) + rb"\b")
        try:
            texts = [module.read(), *self.included().values()]
        except Refused:
            return True
        return any(b"##" in text or word.search(text) for text in texts)

    def spellings(self, module: Module) -> dict[str, bytes]:
        """Return the headers by each name for a module's #include: from the top, and from its own folder."""
        contents = self.included()
        folder = os.path.dirname(os.path.relpath(module.file, self.folder))
        beside = {os.path.relpath(name, folder or "."): data for name, data in contents.items()}
        return {**contents, **beside}


class UserToolchain(NamedTuple):
    """How one toolchain is found here, and how it compiles; see `gpuforge.package.contents.UserToolchain`.

    A kernel's first use needs only the fields without a default, `devices` and `extensions`.
    """

    name: str
    family: str
    sources: tuple[str, ...]  # in a set of modules: its own sources
    argv: tuple[str, ...]
    install: Mapping[str, str]
    devices: tuple[str, ...] = ()  # the kinds of OpenCL's devices that it compiles for
    extensions: tuple[str, ...] = ()  # of OpenCL, that a device must have
    version: str = ""
    accepts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    programs: str = ""
    answers: str = ""
    places: tuple[str, ...] = ()
    product: str = ""
    offload: str = ""
    runtimes: tuple[str, ...] = ()
    makes: str = "library"
    by_command: bool = False  # `argv` is the maintainer's own command, which begins with the program
    of_toolkit: bool = False  # its compiler belongs to a CUDA toolkit

    @property
    def needs_arch(self) -> bool:
        """Whether it compiles for one architecture: its compiler's default if none is given."""
        return self.of_toolkit and self.takes_arch

    @property
    def takes_arch(self) -> bool:
        """Whether the user can choose the architecture that it compiles for."""
        return any("{arch}" in word for word in self.argv)

    @property
    def into_cache(self) -> bool:
        """Whether its output stays in the kernel cache, and is not a user build."""
        backend = backend_of(self.family)
        return backend is not None and backend.into_cache

    @property
    def program(self) -> str:
        """The compiler's name for people: "g++"; for a command, its program."""
        return self.argv[0] if self.by_command else self.family


class Recipe(NamedTuple):
    """An object that users compile: a library, or a set of modules (`kind`). Its files are in `folder`.

    `sources` are the files that compilers get, `includes` those beside them, both with their sha256.
    """

    folder: str
    name: str
    kind: str
    demands: Demands
    cpu: str  # of a set of modules: its library for the CPU, "" for none
    sources: Mapping[str, str]
    includes: Mapping[str, str]
    toolchains: tuple[UserToolchain, ...]
    archs: tuple[Arch, ...]  # of machine code in the wheel
    program: bool = False  # a program instead of a library

    @property
    def fallback(self) -> str:
        """The object to use instead, "" for none."""
        return next(iter(self.demands.fallbacks), "")

    @property
    def files(self) -> Mapping[str, str]:
        """The sha256 of each file."""
        return {**self.sources, **self.includes}

    @property
    def lowest_arch(self) -> Arch | None:
        """The lowest of the wheel's architectures whose PTX every newer GPU can run; None if it has none."""
        return min((arch for arch in self.archs if not arch.variant), default=None)

    def path(self, file: str) -> str:
        return os.path.join(self.folder, file)

    def part(self, compiled: Collection[str], name: str = "") -> Recipe:
        """Return the recipe for some of its sources, beside which the others lie, and for another library's name."""
        sources = {file: self.sources[file] for file in compiled}
        others = {file: sha256 for file, sha256 in self.files.items() if file not in sources}
        return self._replace(name=name or self.name, sources=sources, includes=others)

    def places(self) -> Iterator[BuildPlace]:
        """Yield the places of the sources that back ends compile at their first use, by their first toolchain each."""
        firsts = {toolchain.family: toolchain for toolchain in reversed(self.toolchains)}
        for family, toolchain in firsts.items():
            backend, sources = backend_of(family), self.sources_of(toolchain)
            if backend:
                contents = sources.contents(self.name)
                yield BuildPlace(backend.origin, sources.folder, contents=contents, sources=sources)

    def sources_of(self, toolchain: UserToolchain) -> Sources:
        """Return a toolchain's part of a set of modules."""
        backend = backend_of(toolchain.family)
        images = (Image(backend.source),) if backend else ()
        modules = {}
        for source in toolchain.sources:
            stem = os.path.splitext(os.path.basename(source))[0]
            modules[stem] = Module(stem, source, self.path(source), self.sources[source], images)
        return Sources(
            family=toolchain.family,
            options=toolchain.argv,
            install=toolchain.install.get("", ""),
            folder=self.folder,
            modules=modules,
            headers=self.includes,
            devices=toolchain.devices,
            extensions=toolchain.extensions,
        )


def read(folder: str) -> Recipe | None:
    """Return the recipe of a set of modules for the first use of its kernels. Raises Refused.

    None if there is none, or it is a library's.
    """
    file = layout.recipe(folder)
    try:
        data = document.read(file)
        if document.text(data, "kind", "library") != "module":
            return None
        return _recipe(folder, data, _at_first_use)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(unreadable(file, error)) from error
    except document.Damaged as error:
        raise Refused(damaged(file, error)) from error


def read_to_compile(folder: str) -> Recipe:
    """Return the recipe of an object with all that its toolchains need; raises Refused."""
    file = layout.recipe(folder)
    try:
        return recipe_of(folder, document.read(file))
    except OSError as error:
        raise Refused(unreadable(file, error)) from error
    except document.Damaged as error:
        raise Refused(damaged(file, error)) from error


def recipe_of(folder: str, data: dict[str, Any]) -> Recipe:
    """Return a recipe with all that its toolchains need; raises Refused for another schema, Damaged."""
    return _recipe(folder, data, _toolchain)


def _recipe(
    folder: str, data: dict[str, Any], read_toolchain: Callable[[dict[str, Any]], UserToolchain]
) -> Recipe:
    """Read a recipe; raises Refused for another schema, Damaged."""
    schema = document.whole(data, "schema")
    if schema != SCHEMA:
        raise Refused(other_schema(layout.recipe(folder), schema, SCHEMA))
    of_modules = document.text(data, "kind") == "module"
    sources, includes = _digests(data, "sources"), _digests(data, "includes")
    toolchains = []
    for entry in document.tables(data, "toolchains"):
        toolchains.append(read_toolchain(entry))
        others = [source for source in toolchains[-1].sources if source not in sources]
        if of_modules and others:
            raise document.Damaged(f"'{others[0]}' is not among its sources")
    name = document.text(data, "name")
    if of_modules:
        document.text(data, "abi")  # which a library's recipe may lack
    return Recipe(
        folder=folder,
        name=name,
        kind=document.text(data, "kind"),
        demands=demands_of(data),
        cpu=document.file_name(data, "cpu", "") if of_modules else "",
        sources=sources,
        includes=includes,
        toolchains=tuple(toolchains),
        archs=_archs(data),
        program="program" in data and document.flag(data, "program"),
    )


def _archs(data: dict[str, Any]) -> tuple[Arch, ...]:
    """Return a recipe's architectures; empty if one cannot be read, as they only help without a GPU."""
    try:
        return tuple(map(Arch.parse, document.texts(data, "archs")))
    except (ValueError, document.Damaged):
        return ()


def _digests(recipe: dict[str, Any], key: str) -> dict[str, str]:
    found = {}
    for entry in document.tables(recipe, key):
        name = document.text(entry, "file")
        if os.path.isabs(name) or ".." in name.split("/"):
            raise document.Damaged(f"'{name}' leads out of its folder")
        found[name] = document.text(entry, "sha256")
    return found


def _at_first_use(entry: dict[str, Any]) -> UserToolchain:
    return UserToolchain(
        name=document.text(entry, "name"),
        family=document.text(entry, "family"),
        sources=document.texts(entry, "sources"),
        install={"": document.text(document.table(entry, "install"), "", "")},
        devices=document.texts(entry, "devices"),
        extensions=document.texts(entry, "extensions"),
        argv=document.texts(entry, "argv"),
    )


def _toolchain(entry: dict[str, Any]) -> UserToolchain:
    text, texts = partial(document.text, entry), partial(document.texts, entry)
    install = document.table(entry, "install")
    if not texts("argv") and (text("programs") or text("makes") == "library"):  # else called as a library
        raise document.Damaged("'argv' is empty")
    return _at_first_use(entry)._replace(
        version=text("version"),
        accepts=_accepts(entry),
        programs=text("programs"),
        answers=text("answers"),
        places=texts("places"),
        product=text("product"),
        offload=text("offload"),
        runtimes=texts("runtimes"),
        install={key: document.text(install, key) for key in install},
        makes=text("makes"),
        by_command=document.flag(entry, "by_command"),
        of_toolkit=document.flag(entry, "of_toolkit"),
    )


def _accepts(entry: dict[str, Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    with suppress(KeyError, OverflowError, TypeError, ValueError):
        bounds = tuple((str(operator), tuple(map(int, numbers))) for operator, numbers in entry["accepts"])
        if OPERATORS.issuperset(operator for operator, _ in bounds):
            return bounds
    raise document.Damaged("'accepts' is not a list of bounds")


def backend_of(family: str) -> Backend | None:
    """Return the back end that compiles the sources of a family of toolchains at their first use; None without one."""
    return next((backend for backend in BACKENDS.values() if family and backend.family == family), None)
