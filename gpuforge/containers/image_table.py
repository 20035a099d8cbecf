"""The rows of images.toml: the images that gpuforge knows, and the Debian releases and Pythons in them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from gpuforge import datafile

Kind = Literal["debian", "registry"]
Purpose = Literal["build", "test"]
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DebianRelease:
    """A Debian release; debootstrap makes the base of an image from it."""

    suite: str
    glibc: str
    python: str  # its own Python

    @property
    def identity(self) -> str:
        """Its part of an image's tag. This text must not change: existing images are found by their tags."""
        return f"Release(suite={self.suite!r}, glibc={self.glibc!r}, python={self.python!r})"


class CPythonSource(NamedTuple):
    """The sources of a CPython: a file on a Debian mirror."""

    minor: str
    version: str
    path: str
    sha256: str


class ImageRow(NamedTuple):
    """A row of the table of images. Fields that it leaves out are those of the image `on` which it is made.

    `machines` are references of an image that is pulled, or further arguments of one that is made; empty for every
    machine type.
    """

    name: str
    kind: Kind
    purpose: Purpose = "build"
    suite: str = ""  # the Debian release
    on: str = ""
    glibc: str = ""
    pythons: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()  # of Debian
    also_from: str = ""  # an older suite, for packages that its own does not have
    test: str | None = None
    toolkit: str | None = None
    host_compiler: str = ""
    dockerfile: str = ""
    arguments: Mapping[str, str] = _NOTHING
    machines: Mapping[str, str | Mapping[str, str]] = _NOTHING

    def is_for(self, machine: str) -> bool:
        """Return whether there is an image for a machine type."""
        return not self.machines or machine in self.machines


@cache
def folder() -> Path:
    """Return the folder of the definitions: in gpuforge's own package, or in its source tree."""
    packaged = Path(str(files("gpuforge.containers") / "definitions"))
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "containers"


@cache
def rows() -> tuple[ImageRow, ...]:
    """Return the rows of the images, in the file's order."""
    return datafile.rows(ImageRow, _content()["image"])


def row(name: str) -> ImageRow:
    """Return the row of one image; raises KeyError for an unknown name."""
    return {entry.name: entry for entry in rows()}[name]


@cache
def release(suite: str) -> DebianRelease:
    """Return a Debian release by its name."""
    return DebianRelease(suite, **_content()["suite"][suite])


@cache
def cpythons() -> Mapping[str, CPythonSource]:
    """Return the Pythons that are compiled for releases without them, by their minor version."""
    found = ({"minor": minor, **row} for minor, row in _content()["cpython"].items())
    return {source.minor: source for source in datafile.rows(CPythonSource, found)}


def _content() -> Mapping[str, Any]:
    return tomllib.loads((folder() / "images.toml").read_text(encoding="utf-8"))
