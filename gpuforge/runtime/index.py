"""Reads an `index.json`: the modules of a kernel set or the libraries of an object, with the images in them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, Union

from . import document
from .arch import Arch
from .cpu_level import CpuLevel
from .image import Image
from .image_kind import kind_of
from .reason import Reason
from .signature import Entry, Parameter

SCHEMA = 1
LONGEST_ARCH = 16  # characters
_Part = TypeVar("_Part")


class Refused(Exception):  # noqa: N818  a reason on its way to a candidate
    """A part of a kernel set cannot be used; `reason` is the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Module(NamedTuple):
    """One file of a kernel set and the images in it; `source` is the path it was compiled from.

    It is a fatbin, or one of a module's files for several back ends. `sha256` is "" for a file without an index.
    Without `kernels` it is not known which it has.
    """

    name: str
    source: str
    file: str
    sha256: str
    images: tuple[Image, ...]
    kernels: tuple[Entry, ...] = ()

    def read(self) -> bytes:
        """Return the file's bytes; raises Refused if they are missing or differ from the index."""
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
        """Both in one text: "nvcc 13.0.88"."""
        return self.family if self.version is None else f"{self.family} {self.version}"


class Index(NamedTuple):
    """The content of a kernel set: its `compiler`, and the `toolkit`, "13.0".

    A module has one file, or several, of which the first that runs here is used. `cpu` is the library that does its
    work without a GPU, "" for none.
    """

    name: str
    compiler: CompiledBy
    toolkit: str
    modules: Mapping[str, tuple[Module, ...]]
    cpu: str = ""
    install: str = ""  # the command to install the Python package that runs its modules


class Demands(NamedTuple):
    """The ABI that an object's libraries must have here, and the objects to use instead if none of these runs.

    `abi` is the wheel's part of the ABI id, and `packages` are those whose installed versions are part of it.
    """

    fallbacks: tuple[str, ...]
    abi: str
    packages: Mapping[str, str]


class Library(NamedTuple):
    """One library of an object, of `size` bytes: for the CPUs of a level, or for the GPUs of its images."""

    file: str
    size: int
    images: tuple[Image, ...]


class Libraries(NamedTuple):
    """The libraries of an object, and their compiler."""

    compiler: CompiledBy
    files: tuple[Library, ...]


class LibraryIndex(NamedTuple):
    """The index of an object's libraries. Instead of a damaged part there is a reason; the other parts are used.

    Without `is_library` it is the index of a kernel set.
    """

    is_library: bool
    demands: Union[Demands, Reason]
    stands_in_for: Union[str, Reason]  # the object that this one replaces, "" for none
    libraries: Union[Libraries, Reason]


def read_index(path: str) -> Index:
    """Read the index of a kernel set; raises Refused with a reason that has the file and its problem."""
    try:
        data = document.read(path)
        schema = document.whole(data, "schema")
        if schema != SCHEMA:
            raise Refused(other_schema(path, schema, SCHEMA))
        if document.text(data, "kind", "module") == "library":
            raise Refused(Reason("is-library", {"file": path}))
        toolkit = document.text(data, "toolkit")
        folder = os.path.dirname(path)
        named: dict[str, tuple[Module, ...]] = {}
        for entry in document.tables(data, "modules"):
            module = _module(folder, entry, toolkit)
            named[module.name] = (*named.get(module.name, ()), module)
        name = document.text(data, "name")
        cpu, install = document.file_name(data, "cpu", ""), document.text(data, "install", "")
        return Index(name, _made_by(data), toolkit, named, cpu, install)
    except OSError as error:
        raise Refused(unreadable(path, error)) from error
    except document.Damaged as error:
        raise Refused(damaged(path, error)) from error


def read_libraries(path: str) -> LibraryIndex | None:
    """Read the index of an object's libraries, None without a file; raises Refused for a file that is not an index."""
    data = read_named(path)
    if data is None:
        return None
    return LibraryIndex(
        data.get("kind") == "library",
        _part(path, demands_of, data),
        _part(path, _stands_in_for, data),
        _part(path, _libraries, data),
    )


def read_named(path: str) -> dict[str, Any] | None:
    """Read an index or a recipe with a name, None without a file; raises Refused."""
    try:
        data = document.read(path)
        document.text(data, "name")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(unreadable(path, error)) from error
    except document.Damaged as error:
        raise Refused(damaged(path, error)) from error
    return data


def demands_of(data: dict[str, Any]) -> Demands:
    """Return the demands of an index or a recipe on libraries; raises Damaged."""
    fallbacks, abi = document.file_names(data, "fallbacks"), document.text(data, "abi", "")
    packages = document.table(data, "packages") if "packages" in data else {}
    return Demands(fallbacks, abi, {name: document.text(packages, name) for name in packages})


def other_schema(path: str, found: int, expected: int) -> Reason:
    """Return the reason for a file of another runtime."""
    return Reason("other-schema", {"file": path, "found": found, "expected": expected})


def unreadable(path: str, error: OSError) -> Reason:
    """Return the reason for a file that cannot be read."""
    return Reason("unreadable", {"file": path, "problem": error.strerror or str(error)})


def damaged(path: str, error: document.Damaged) -> Reason:
    """Return the reason for a file that is not as expected."""
    return Reason("damaged", {"file": path, "problem": str(error)})


def _part(path: str, read: Callable[[dict[str, Any]], _Part], data: dict[str, Any]) -> _Part | Reason:
    try:
        return read(data)
    except document.Damaged as error:
        return damaged(path, error)


def _stands_in_for(data: dict[str, Any]) -> str:
    return document.text(data, "stands-in-for", "")


def _libraries(data: dict[str, Any]) -> Libraries:
    compiler, toolkit = _made_by(data), document.text(data, "toolkit")
    return Libraries(
        compiler, tuple(_library(entry, toolkit) for entry in document.tables(data, "libraries"))
    )


def _library(entry: dict[str, Any], toolkit: str) -> Library:
    file = document.file_name(entry, "file")
    images = tuple(_image(each, toolkit) for each in document.tables(entry, "images"))
    if not images:
        raise document.Damaged("'images' is empty")
    return Library(file, document.whole(entry, "size"), images)


def _made_by(data: dict[str, Any]) -> CompiledBy:
    toolchain = document.table(data, "toolchain")
    return CompiledBy(document.text(toolchain, "family"), document.text(toolchain, "version"))


def _module(folder: str, entry: dict[str, Any], toolkit: str) -> Module:
    file = document.file_name(entry, "file")
    images = tuple(_image(each, toolkit) for each in document.tables(entry, "images"))
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


def _image(entry: dict[str, Any], toolkit: str) -> Image:
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
