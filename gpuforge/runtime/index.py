"""Reads the index of a kernel set: which modules it has, from which source, with which images."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import document
from .reason import Reason
from .resolve import IREE, NAMED, PTX, Image

SCHEMA = 1
FILE = "index.json"
LONGEST_ARCH = 16  # characters


class Refused(Exception):  # noqa: N818  a reason on its way to a candidate
    """Something of a kernel set cannot be used; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Module(NamedTuple):
    """One file of a kernel set and the images in it; `source` is the path it was compiled from.

    It is a fatbin, or one of a module's files for several back ends. `sha256` is "" for a file that was named without
    an index.
    """

    name: str
    source: str
    file: str
    sha256: str
    images: tuple[Image, ...]

    def read(self) -> bytes:
        """Return the file's bytes; raises Refused when they are missing or not those indexed."""
        try:
            with document.open_file(self.file) as stream:
                data = stream.read()
        except OSError as error:
            raise Refused(_unreadable(self.file, error)) from error
        found = hashlib.sha256(data).hexdigest()
        if self.sha256 and found != self.sha256:
            raise Refused(Reason("changed", {"file": self.file, "found": found, "expected": self.sha256}))
        return data


class Compiler(NamedTuple):
    """What compiled the modules of a kernel set."""

    family: str  # "nvcc"
    version: str | None = None  # "13.0.88"; None for sources, which are compiled on the user's machine

    @property
    def label(self) -> str:
        """Both in one text: "nvcc 13.0.88"."""
        return self.family if self.version is None else f"{self.family} {self.version}"


class Index(NamedTuple):
    """What a kernel set holds and what made it: `compiler` and `toolkit`, "13.0".

    A module has one file, or several, of which the first that runs here is used. `cpu` names the library that does its
    work where there is no GPU, "" for none.
    """

    name: str
    kind: str
    compiler: Compiler
    toolkit: str
    modules: Mapping[str, tuple[Module, ...]]
    cpu: str = ""
    install: str = ""  # how a user gets the Python package that runs its modules


def read_index(path: str) -> Index:
    """Read an index.json; raises Refused with a reason that names the file and what is wrong in it."""
    try:
        data = document.read(path)
        schema = document.whole(data, "schema")
        if schema != SCHEMA:
            raise Refused(Reason("other-schema", {"file": path, "found": schema, "expected": SCHEMA}))
        toolkit = document.text(data, "toolkit")
        folder = os.path.dirname(path)
        named: dict[str, tuple[Module, ...]] = {}
        for entry in document.tables(data, "modules"):
            module = _module(folder, entry, toolkit)
            named[module.name] = (*named.get(module.name, ()), module)
        name = document.text(data, "name")
        kind = document.text(data, "kind", "module")
        cpu, install = document.file_name(data, "cpu", ""), document.text(data, "install", "")
        return Index(name, kind, made_by(data), toolkit, named, cpu, install)
    except OSError as error:
        raise Refused(_unreadable(path, error)) from error
    except document.Damaged as error:
        raise Refused(Reason("damaged", {"file": path, "problem": str(error)})) from error


def made_by(data: dict[str, Any]) -> Compiler:
    """Return the compiler that an index names; raises Damaged."""
    toolchain = document.table(data, "toolchain")
    return Compiler(document.text(toolchain, "family"), document.text(toolchain, "version"))


def _unreadable(path: str, error: OSError) -> Reason:
    return Reason("unreadable", {"file": path, "problem": error.strerror or str(error)})


def _module(folder: str, entry: dict[str, Any], toolkit: str) -> Module:
    file = document.file_name(entry, "file")
    images = tuple(image(each, toolkit) for each in document.tables(entry, "images"))
    for each in images:
        if each.kind in NAMED:  # no image of a fatbin: what the runtime itself calls files that have no index
            raise document.Damaged(f"'{each.kind}' is not the kind of an image")
    name, source = document.text(entry, "name"), document.text(entry, "source")
    sha256 = document.text(entry, "sha256")
    if not sha256:
        raise document.Damaged("'sha256' is empty")
    return Module(name, source, os.path.join(folder, file), sha256, images)


def image(entry: dict[str, Any], toolkit: str) -> Image:
    """Return an image as an index lists it; raises Damaged if it is not one."""
    kind, arch = document.text(entry, "kind"), document.text(entry, "arch")
    isa = _version(document.text(entry, "isa")) if kind in PTX else None
    own = kind == "library" or kind in IREE or (kind == "ptx" and not toolkit)  # made without a CUDA toolkit
    found = Image(kind, arch, (0, 0) if own else _version(toolkit), isa)
    if kind in {"cubin", *PTX}:  # its check comes with reading, not when the image is first judged
        try:
            found.parsed  # noqa: B018
        except ValueError:
            raise document.Damaged(f"'{arch}' is not a GPU architecture") from None
        if len(arch) > LONGEST_ARCH:
            raise document.Damaged(f"'{arch}' is not a GPU architecture")
    return found


def _version(text: str) -> tuple[int, int]:
    found = re.match(r"([0-9]{1,4})\.([0-9]{1,4})(?:\.|\Z)", text)
    if found is None:
        raise document.Damaged(f"'{text}' is not a version like 13.0")
    return int(found[1]), int(found[2])
