"""How the images are made: each one a stage of a Dockerfile, what goes into it, and the tag that follows from that."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from gpuforge import digest
from gpuforge.containers import image_reference as references
from gpuforge.toolkits.providers import debian

SCHEMA = 1
_CPYTHON = ("debian/compile-cpython.sh", "debian/lean.cfg")
_FILES = {  # a Dockerfile and what it copies
    "debian/cpython.Dockerfile": _CPYTHON,
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


@dataclass(frozen=True, slots=True)
class DebianRelease:
    """A Debian release, which debootstrap makes the bottom of an image of."""

    suite: str
    glibc: str
    python: str  # its own

    @property
    def identity(self) -> str:
        """What the tags of images have of it: this text stays, so that images that are there are found."""
        return f"Release(suite={self.suite!r}, glibc={self.glibc!r}, python={self.python!r})"


@dataclass(frozen=True, slots=True)
class CPythonSource:
    """The sources of a CPython: a file on a Debian mirror."""

    minor: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One image made of one Dockerfile.

    `base` is what it is built on: a Debian release, another stage, or the reference of an image in a registry.
    `cpython` is the stage that its further Pythons come from, `sources` what is compiled in it, `also_from` an older
    Debian suite for packages that its own does not have, `toolkit` the CUDA minor that is laid into it.
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
        """The definition files that it is made of, the Dockerfile first, relative to `folder()`."""
        return (self.dockerfile, *_FILES[self.dockerfile])

    @property
    def identity(self) -> str:
        """The name and tag of the image: the tag is the first 12 digits of what it is made of."""
        return f"{references.OWN}/{self.name}:{digest.of_data(self._content())[:12]}"

    @property
    def reference(self) -> str:
        """What an engine calls the image."""
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
    """Return the digest of all that a toolkit of Debian's compiler is made of."""
    return debian.source(minor, (), machine).identity


@cache
def folder() -> Path:
    """Return the folder of the definitions: in gpuforge's own package, or in its source tree."""
    packaged = Path(str(files("gpuforge.containers") / "definitions"))
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "containers"


@cache
def data() -> Mapping[str, Any]:
    """Return the content of images.toml."""
    with (folder() / "images.toml").open("rb") as stream:
        found: Mapping[str, Any] = tomllib.load(stream)
    return found


def rows() -> tuple[Mapping[str, Any], ...]:
    """Return the rows of the images, in the file's order."""
    return tuple(data()["image"])


def row(name: str) -> Mapping[str, Any]:
    """Return the row of one image; raises KeyError for an unknown name."""
    return {entry["name"]: entry for entry in rows()}[name]


def release(suite: str) -> DebianRelease:
    """Return a Debian release by its name."""
    known = data()["suite"][suite]
    return DebianRelease(suite, known["glibc"], known["python"])


@cache
def of(name: str, machine: str) -> Stage | None:
    """Return how an image is made on a machine type; None for one that is only pulled."""
    entry = row(name)
    if "toolkit" in entry and entry["kind"] == "debian":
        return Stage(
            name,
            "debian/cuda.Dockerfile",
            _below(entry["on"], machine),
            (("HOST_COMPILER", entry["host-compiler"]), ("TOOLKIT", entry["toolkit"])),
            toolkit=entry["toolkit"],
            machine=machine,
        )
    if entry["kind"] == "debian":
        return _debian(entry, machine)
    if "dockerfile" not in entry:
        return None
    arguments = {**entry["arguments"], **entry["machines"].get(machine, {})}
    return Stage(
        name, entry["dockerfile"], pinned(entry["on"], machine), tuple(arguments.items()), machine=machine
    )


def pinned(name: str, machine: str) -> str:
    """Return the reference, with its digest, of an image that is pulled; "" for a machine type that it is not for."""
    return str(row(name)["machines"].get(machine, ""))


def _below(name: str, machine: str) -> Stage:
    stage = of(name, machine)
    assert stage is not None  # noqa: S101  images.toml puts toolkits on images that are made
    return stage


def _debian(entry: Mapping[str, Any], machine: str) -> Stage:
    below = release(entry["suite"])
    purpose = entry.get("purpose", "build")
    arguments = (("PYTHON", below.python), ("PACKAGES", " ".join(entry.get("packages", ()))))
    return Stage(
        entry["name"],
        f"debian/{purpose}.Dockerfile",
        below,
        arguments if purpose == "build" else arguments[:1],
        cpython=_cpython(below, [minor for minor in entry["pythons"] if minor != below.python], machine),
        also_from=entry.get("also-from", ""),
        machine=machine,
    )


def _cpython(below: DebianRelease, minors: list[str], machine: str) -> Stage:
    """Return the stage that compiles the Pythons which a release does not have."""
    known = data()["cpython"]
    return Stage(
        f"cpython-{below.suite}",
        "debian/cpython.Dockerfile",
        below,
        (("PYTHONS", " ".join(minors)),),
        sources=tuple(CPythonSource(minor, known[minor]["path"], known[minor]["sha256"]) for minor in minors),
        machine=machine,
    )
