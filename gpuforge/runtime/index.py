"""Reads an `index.json`: the modules of a kernel set or the libraries of an object, and the places that have them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import document
from .arch import Arch
from .signature import Entry, Parameter, matching, plain_entry
from .values import Build, CpuLevel, Image, Origin, Reason, Refused, kind_of

SCHEMA = 1
LONGEST_ARCH = 16  # characters


class Module(NamedTuple):
    """One file of a kernel set and the images in it; `source` is the path it was compiled from.

    `sha256` is "" for a file without an index. Without `kernels` it is not known which it has.
    """

    name: str
    source: str
    file: str
    sha256: str
    images: tuple[Image, ...]
    kernels: tuple[Entry, ...] = ()

    def read(self) -> bytes:
        try:
            with document.open_file(self.file) as stream:
                data = stream.read()
        except OSError as error:
            raise Refused(unreadable(self.file, error)) from error
        found = hashlib.sha256(data).hexdigest()
        if self.sha256 and found != self.sha256:
            raise Refused(Reason("changed", {"file": self.file, "found": found, "expected": self.sha256}))
        return data


class CompiledBy(NamedTuple):
    """The compiler of a kernel set's modules."""

    family: str  # "nvcc"
    version: str | None = None  # "13.0.88"; None for sources, which are compiled on the user's machine

    @property
    def label(self) -> str:
        return self.family if self.version is None else f"{self.family} {self.version}"


class Index(NamedTuple):
    """The content of a kernel set. A module has one file, or several, of which the first that runs here is used.

    `cpu` is the library that does its work without a GPU, "" for none.
    """

    name: str
    compiler: CompiledBy
    toolkit: str
    modules: Mapping[str, tuple[Module, ...]]
    cpu: str = ""
    install: str = ""  # the command to install the Python package that runs its modules


def read_index(path: str) -> Index:
    try:
        data = document.read(path)
        schema = document.whole(data, "schema")
        if schema != SCHEMA:
            raise Refused(other_schema(path, schema, SCHEMA))
        if document.text(data, "kind", "module") == "library":
            raise Refused(Reason("is-library", {"file": path}))
        return index_of(os.path.dirname(path), data)
    except OSError as error:
        raise Refused(unreadable(path, error)) from error
    except document.Damaged as error:
        raise Refused(damaged(path, error)) from error


def index_of(folder: str, data: dict[str, Any]) -> Index:
    toolkit = document.text(data, "toolkit")
    named: dict[str, tuple[Module, ...]] = {}
    for entry in document.tables(data, "modules"):
        module = _module(folder, entry, toolkit)
        named[module.name] = (*named.get(module.name, ()), module)
    name = document.text(data, "name")
    cpu, install = document.file_name(data, "cpu", ""), document.text(data, "install", "")
    return Index(name, made_by(data), toolkit, named, cpu, install)


def other_schema(path: str, found: int, expected: int) -> Reason:
    return Reason("other-schema", {"file": path, "found": found, "expected": expected})


def unreadable(path: str, error: OSError) -> Reason:
    return Reason("unreadable", {"file": path, "problem": error.strerror or str(error)})


def damaged(path: str, error: document.Damaged) -> Reason:
    return Reason("damaged", {"file": path, "problem": str(error)})


def made_by(data: dict[str, Any]) -> CompiledBy:
    toolchain = document.table(data, "toolchain")
    return CompiledBy(document.text(toolchain, "family"), document.text(toolchain, "version"))


def _module(folder: str, entry: dict[str, Any], toolkit: str) -> Module:
    file = document.file_name(entry, "file")
    images = tuple(image_of(each, toolkit) for each in document.tables(entry, "images"))
    for each in images:
        if (
            not each.about.of_module
        ):  # not an image of a fatbin: a kind that the runtime gives files without an index
            raise document.Damaged(f"'{each.kind}' is not the kind of an image")
    name, source = document.text(entry, "name"), document.text(entry, "source")
    sha256 = document.text(entry, "sha256")
    if not sha256:
        raise document.Damaged("'sha256' is empty")
    kernels = tuple(map(_kernel, document.tables(entry, "kernels")))
    return Module(name, source, os.path.join(folder, file), sha256, images, kernels)


def _kernel(entry: dict[str, Any]) -> Entry:
    symbol, name = document.text(entry, "symbol"), document.text(entry, "name")
    parameters = document.tables(entry, "parameters")
    return Entry(
        symbol,
        name,
        tuple(Parameter(document.text(each, "type"), document.whole(each, "size")) for each in parameters),
    )


def image_of(entry: dict[str, Any], toolkit: str) -> Image:
    kind, arch = document.text(entry, "kind"), document.text(entry, "arch")
    about = kind_of(kind)
    isa = _version(document.text(entry, "isa")) if about.has_ptx else None
    alone = not about.of_toolkit or (about.has_ptx and not toolkit)  # made without a CUDA toolkit
    version = (0, 0) if alone else _version(toolkit)
    return Image(kind, _built_for(about.built_for, arch), version, isa)


def _built_for(what: str, text: str) -> Arch | CpuLevel | str:
    if what == "CPU":
        return CpuLevel(text)
    if what != "GPU":
        return text
    try:
        arch = Arch.parse(text)
    except ValueError:
        raise document.Damaged(f"'{text}' is not a GPU architecture") from None
    if len(text) > LONGEST_ARCH:
        raise document.Damaged(f"'{text}' is not a GPU architecture")
    return arch


def _version(text: str) -> tuple[int, int]:
    found = re.match(r"([0-9]{1,4})\.([0-9]{1,4})(?:\.|\Z)", text)
    if found is None:
        raise document.Damaged(f"'{text}' is not a version like 13.0")
    return int(found[1]), int(found[2])


class Wanted(NamedTuple):
    """A kernel that a caller wants; without `entry` some image of the module has no list of its kernels."""

    module: str
    name: str
    entry: Entry | None
    message: str = ""

    def entries(self, module: Module, origin: Origin) -> tuple[Entry, ...]:
        """Return the entries to look up in a module's file, one after the other; none if its list does not have the
        kernel.

        A file without a list may have it by its symbol, or by the name as given. If it is the user's own, its
        parameters are not known.
        """
        if module.kernels:
            same = [each for each in module.kernels if self.entry and each.symbol == self.entry.symbol]
            return tuple(same) or matching(module.kernels, self.name)[:1]
        if self.entry is None:
            return (plain_entry(self.name),)
        parameters = None if origin <= Origin.USER_BUILD else self.entry.parameters
        symbols = dict.fromkeys((self.entry.symbol, self.name))
        return tuple(Entry(symbol, self.entry.name, parameters) for symbol in symbols)


class BuildPlace(NamedTuple):
    """One place with a build of a set: its contents, or one file for any module, or its problem."""

    origin: Origin
    path: str
    contents: Index | None = None
    file: str = ""
    image: Image = Image("unread")
    problem: Reason | None = None
    wheel: str = ""  # the kernels wheel that it is in, such as "saxpy-kernels-cu13"
    sources: Any = None  # `recipe.Sources`

    @property
    def images(self) -> tuple[Image, ...]:
        if self.contents is None:
            return (self.image,) if self.file else ()
        return tuple(
            image for files in self.contents.modules.values() for file in files for image in file.images
        )

    def files(self, name: str) -> tuple[Module, ...]:
        """Return the files of a module; a named file is for any module."""
        if self.file:
            return (Module(name, "", self.file, "", (self.image,)),)
        return self.contents.modules.get(name, ()) if self.contents else ()

    def builds(self, name: str, *, read: bool = False) -> tuple[Build, ...]:
        """Return the builds of a module for `resolve`; with `read` each file is read and compared with the index."""
        if self.problem or (self.contents is None and not self.file):
            return (Build(self.origin, self.path, problem=self.problem, wheel=self.wheel),)
        files = self.files(name)
        if not files:
            known = ", ".join(sorted(self.contents.modules if self.contents else ())) or "none"
            facts = {"set": self.path, "name": name, "known": known}
            return (Build(self.origin, self.path, problem=Reason("no-module", facts), wheel=self.wheel),)
        return tuple(
            Build(
                self.origin,
                file.file,
                file.images,
                problem=_trouble(file) if read else None,
                wheel=self.wheel,
            )
            for file in files
        )


def place_in(origin: Origin, folder: str) -> BuildPlace:
    try:
        return BuildPlace(origin, folder, contents=read_index(os.path.join(folder, "index.json")))
    except Refused as refused:
        return BuildPlace(origin, folder, problem=refused.reason)


def _trouble(module: Module) -> Reason | None:
    try:
        module.read()
    except Refused as refused:
        return refused.reason
    return None
