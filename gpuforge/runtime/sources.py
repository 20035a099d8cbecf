"""The sources of a kernel set that are compiled on the user's machine: their options, contents and headers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from .index import CompiledBy, Index, Module
from .placeholders import fill


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

    def spellings(self, module: Module) -> dict[str, bytes]:
        """Return the headers by each name for a module's #include: from the top, and from its own folder."""
        contents = self.included()
        folder = os.path.dirname(os.path.relpath(module.file, self.folder))
        beside = {os.path.relpath(name, folder or "."): data for name, data in contents.items()}
        return {**contents, **beside}
