"""The container images that gpuforge knows: their rows in images.toml, how each is made, and their tags."""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from gpuforge import datafile, digest
from gpuforge.containers import image_reference as references
from gpuforge.containers.emulation import debian_name
from gpuforge.toolkits.providers import debian
from gpuforge.wheel.filename import LinuxTag

Kind = Literal["debian", "registry"]
Purpose = Literal["build", "test"]
_NOTHING: Mapping[str, str] = MappingProxyType({})


class DebianRelease(NamedTuple):
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


_FILES = {  # a Dockerfile and the files that it copies
    "debian/cpython.Dockerfile": ("debian/compile-cpython.sh", "debian/lean.cfg"),
    "debian/build.Dockerfile": (
        "debian/lean.cfg",
        "debian/layout.sh",
        "debian/manylinux-interpreters",
        "debian/requirements.txt",
    ),
    "debian/test.Dockerfile": ("debian/lean.cfg", "debian/layout.sh", "debian/requirements.txt"),
    "debian/cuda.Dockerfile": (),
    "manylinux/cuda.Dockerfile": (),
    "manylinux/nvhpc.Dockerfile": (),
}


class Stage(NamedTuple):
    """One image that is made from one Dockerfile.

    `base` is a Debian release, another stage, or the reference of an image in a registry. `cpython` is the stage with
    its further Pythons, `sources` are compiled in it for `machine` on the type of this machine, `also_from` is an older
    Debian suite for packages that its own does not have, `toolkit` the CUDA minor that is put into it.
    """

    name: str
    dockerfile: str
    base: DebianRelease | Stage | str
    arguments: tuple[tuple[str, str], ...] = ()
    cpython: Stage | None = None
    sources: tuple[CPythonSource, ...] = ()
    also_from: str = ""
    toolkit: str = ""
    machine: str = "x86_64"

    @property
    def files(self) -> tuple[str, ...]:
        """The definition files that it is made of, the Dockerfile first, relative to the folder of the definitions."""
        return (self.dockerfile, *_FILES[self.dockerfile])

    @property
    def identity(self) -> str:
        """The name and tag of the image: the tag is the first 12 digits of a digest of its parts."""
        return f"{references.OWN}/{self.name}:{digest.of_data(self._content())[:12]}"

    @property
    def reference(self) -> str:
        """The image's name in an engine."""
        return references.local(self.identity)

    def _content(self) -> dict[str, Any]:
        return {
            "files": {name: digest.of_file(folder() / name) for name in self.files},
            "base": self.base if isinstance(self.base, str) else self.base.identity,
            "arguments": self.arguments,
            "cpython": self.cpython.identity if self.cpython else "",
            "sources": [(source.minor, source.sha256) for source in self.sources],
            "also_from": self.also_from,
            "toolkit": toolkit_identity(self.toolkit, self.machine) if self.toolkit else "",
            "machine": self.machine,
        }


def toolkit_identity(minor: str, machine: str) -> str:
    """Return the digest of all parts of a toolkit with Debian's compiler."""
    return debian.source(minor, (), machine).identity


@cache
def stage_of(name: str, machine: str) -> Stage | None:
    """Return the stage of an image for a machine type; None for one that is only pulled."""
    entry = row(name)
    if entry.kind == "debian":
        return _debian(entry, machine)
    if not entry.dockerfile:
        return None
    of_machine = entry.machines.get(machine, {})
    arguments = {**entry.arguments, **(of_machine if isinstance(of_machine, Mapping) else {})}
    return Stage(name, entry.dockerfile, pinned(entry.on, machine), tuple(arguments.items()), machine=machine)


def pinned(name: str, machine: str) -> str:
    """Return the reference, with its digest, of an image that is pulled; "" for a machine type without one."""
    return str(row(name).machines.get(machine, ""))


def _debian(entry: ImageRow, machine: str) -> Stage:
    if entry.toolkit:
        below = stage_of(entry.on, machine)
        assert below is not None  # noqa: S101  images.toml puts toolkits on images that are made
        arguments = (("HOST_COMPILER", entry.host_compiler), ("TOOLKIT", entry.toolkit))
        dockerfile = "debian/cuda.Dockerfile"
        return Stage(entry.name, dockerfile, below, arguments, toolkit=entry.toolkit, machine=machine)
    debian_release = release(entry.suite)
    minors = [minor for minor in entry.pythons if minor != debian_release.python]
    cpython = Stage(  # compiles the Pythons that the release does not have
        f"cpython-{entry.suite}",
        "debian/cpython.Dockerfile",
        debian_release,
        (
            ("ARCHITECTURE", debian_name(machine)),
            ("PYTHONS", " ".join(minors)),
            ("TRIPLET", f"{machine}-linux-gnu"),
        ),
        sources=tuple(cpythons()[minor] for minor in minors),
        machine=machine,
    )
    arguments = (("PYTHON", debian_release.python), ("PACKAGES", " ".join(entry.packages)))
    return Stage(
        entry.name,
        f"debian/{entry.purpose}.Dockerfile",
        debian_release,
        arguments if entry.purpose == "build" else arguments[:1],
        cpython=cpython,
        also_from=entry.also_from,
        machine=machine,
    )


class CatalogImage(NamedTuple):
    """A container image: its purpose, its content, and its reference in an engine.

    `pythons` ("3.11") are in /opt/python/cpXY-cpXY, `compilers` ("g++-12") on PATH, the default first. A wheel built in
    it needs at most `glibc` ("2.36"). `test` is the image that its wheels are tested in, `toolkit` ("11.8") the CUDA
    toolkit in /usr/local/cuda, if there is one. `built` is True for an image that `gpuforge images build` makes, False
    for one that is pulled; `run` is False for definitions that their authors never ran.
    """

    name: str
    kind: Kind
    purpose: Purpose
    reference: str
    machine: str
    glibc: str
    pythons: tuple[str, ...]
    compilers: tuple[str, ...]
    test: str | None
    toolkit: str | None
    built: bool
    run: bool

    @property
    def policy(self) -> str:
        """The newest platform tag that a wheel built in it can need: "manylinux_2_36_x86_64"."""
        return LinuxTag.of_glibc(self.glibc, self.machine).names[0]

    @property
    def to_build(self) -> str:
        """The command that makes or pulls it."""
        other = "" if self.machine == platform.machine() else f" --machine {self.machine}"
        return f"gpuforge images build {self.name}{other}"


@cache
def images(machine: str | None = None) -> tuple[CatalogImage, ...]:
    """Return the images for a machine type (default: this machine's), in the order of the data."""
    machine = machine or platform.machine()
    return tuple(
        _image(entry, machine) for entry in rows() if not entry.machines or machine in entry.machines
    )


def find(name: str, machine: str | None = None) -> CatalogImage | None:
    """Return the image with a name or reference; None for any other, which is the user's own reference."""
    return next((image for image in images(machine) if name in {image.name, image.reference}), None)


def _image(entry: ImageRow, machine: str) -> CatalogImage:
    stage = stage_of(entry.name, machine)
    below = row(entry.on) if entry.on else entry
    is_debian = entry.kind == "debian"
    return CatalogImage(
        name=entry.name,
        kind=entry.kind,
        purpose=entry.purpose,
        reference=stage.reference if stage else pinned(entry.name, machine),
        machine=machine,
        glibc=release(below.suite).glibc if is_debian else below.glibc,
        pythons=below.pythons,
        compilers=entry.compilers or below.compilers,
        test=below.test,
        toolkit=entry.toolkit,
        built=stage is not None,
        run=is_debian,
    )
