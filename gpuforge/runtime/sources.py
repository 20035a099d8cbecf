"""The sources of a kernel set that are compiled on the user's machine, as `recipe.json` lists them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import document
from .index import Compiler, Index, Module, Refused
from .reason import Reason
from .resolve import Image

SCHEMA = 1
FILE = "recipe.json"
IMAGES = {
    "nvrtc": Image("cuda"),
    "opencl": Image("opencl"),
}  # what is compiled when it is first used, and as what


class Sources(NamedTuple):
    """What one toolchain compiles of a set: its options, its modules' sources, and the headers they include.

    In `options`, `{arch}` is the compute capability ("90"), and `{folders}` each folder with sources or headers.
    """

    family: str
    options: tuple[str, ...]
    install: str  # how a user gets what compiles them
    folder: str
    modules: Mapping[str, Module]
    headers: Mapping[str, str]  # sha256 by name
    devices: tuple[str, ...] = ()  # the kinds of OpenCL's devices that they are compiled for, none for any
    extensions: tuple[str, ...] = ()  # of OpenCL, that a device must have

    def contents(self, name: str) -> Index:
        """Return them as what a place of the set holds."""
        return Index(
            name, "module", Compiler(self.family), "", {name: (each,) for name, each in self.modules.items()}
        )

    def filled(self, arch: str = "") -> tuple[str, ...]:
        """Return the options for an architecture; those with folders are filled by `with_folders`."""
        return tuple(word.replace("{arch}", arch) for word in self.options if "{folders}" not in word)

    def with_folders(self) -> tuple[str, ...]:
        """Return the options that name folders: they are no part of a key, as what lies in them is."""
        names = [*self.headers, *(os.path.relpath(m.file, self.folder) for m in self.modules.values())]
        folders = sorted({os.path.dirname(os.path.join(self.folder, name)) for name in names} | {self.folder})
        return tuple(
            word.replace("{folders}", folder)
            for word in self.options
            if "{folders}" in word
            for folder in folders
        )

    def included(self) -> dict[str, bytes]:
        """Return the headers' contents by their names; raises Refused for one that is missing or was changed."""
        found = {}
        for name, expected in self.headers.items():
            file = os.path.join(self.folder, name)
            found[name] = Module(name, name, file, expected, ()).read()
        return found

    def spellings(self, module: Module) -> dict[str, bytes]:
        """Return the headers by each name that a module may include them by: from the top, and from its own folder."""
        contents = self.included()
        folder = os.path.dirname(os.path.relpath(module.file, self.folder))
        beside = {os.path.relpath(name, folder or "."): data for name, data in contents.items()}
        return {**contents, **beside}


class Recipe(NamedTuple):
    """The sources of a set, by the toolchain's family, and the sets of the wheel that stand in for them."""

    name: str
    abi: str
    fallback: str  # a set of device images, "" for none
    cpu: str  # a library for the CPU, "" for none
    digest: str  # of the whole recipe: another one has other builds
    sources: Mapping[str, Sources]


def read(folder: str) -> Recipe | None:
    """Return the recipe of a set of modules; None where there is none, or it is a library's. Raises Refused."""
    file = os.path.join(folder, FILE)
    try:
        data = document.read(file)
        if document.text(data, "kind", "library") != "module":
            return None
        schema = document.whole(data, "schema")
        if schema != SCHEMA:
            raise Refused(Reason("other-schema", {"file": file, "found": schema, "expected": SCHEMA}))
        found = [_sources(folder, entry, data) for entry in document.tables(data, "toolchains")]
        name, abi = document.text(data, "name"), document.text(data, "abi")
        fallback, cpu = (
            next(iter(document.file_names(data, "fallbacks")), ""),
            document.file_name(data, "cpu", ""),
        )
        with document.open_file(file) as stream:
            digest = hashlib.sha256(stream.read()).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(
            Reason("unreadable", {"file": file, "problem": error.strerror or str(error)})
        ) from error
    except document.Damaged as error:
        raise Refused(Reason("damaged", {"file": file, "problem": str(error)})) from error
    return Recipe(name, abi, fallback, cpu, digest, {each.family: each for each in reversed(found)})


def _sources(folder: str, entry: dict[str, Any], recipe: dict[str, Any]) -> Sources:
    digests, headers = _digests(recipe, "sources"), _digests(recipe, "includes")
    family = document.text(entry, "family")
    image = IMAGES.get(family)
    modules = {}
    for source in document.texts(entry, "sources"):
        name = os.path.splitext(os.path.basename(source))[0]
        if source not in digests:
            raise document.Damaged(f"'{source}' is not among its sources")
        place = os.path.join(folder, source)
        modules[name] = Module(name, source, place, digests[source], (image,) if image else ())
    install = document.text(document.table(entry, "install"), "", "")
    devices, extensions = (
        document.texts(entry, key) if key in entry else () for key in ("devices", "extensions")
    )
    argv = document.texts(entry, "argv")
    return Sources(family, argv, install, folder, modules, headers, devices, extensions)


def _digests(recipe: dict[str, Any], key: str) -> dict[str, str]:
    found = {}
    for entry in document.tables(recipe, key):
        name = document.text(entry, "file")
        if os.path.isabs(name) or ".." in name.split("/"):
            raise document.Damaged(f"'{name}' leads out of its folder")
        found[name] = document.text(entry, "sha256")
    return found
