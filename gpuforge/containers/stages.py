"""Defines how the images are made: each is a stage with a Dockerfile, its files, and a tag that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpuforge import digest
from gpuforge.containers import image_reference as references
from gpuforge.containers import image_table
from gpuforge.containers.image_table import CPythonSource, DebianRelease, ImageRow
from gpuforge.toolkits.providers import debian

_CPYTHON = ("debian/compile-cpython.sh", "debian/lean.cfg")
_FILES = {  # a Dockerfile and the files that it copies
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
class Stage:
    """One image that is made from one Dockerfile.

    `base` is a Debian release, another stage, or the reference of an image in a registry. `cpython` is the stage with
    its further Pythons, `sources` are compiled in it, `also_from` is an older Debian suite for packages that its own
    does not have, `toolkit` the CUDA minor that is put into it.
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
            "files": {name: digest.of_file(image_table.folder() / name) for name in self.files},
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
    row = image_table.row(name)
    if row.kind == "debian":
        return _with_toolkit(row, row.toolkit, machine) if row.toolkit else _debian(row, machine)
    if not row.dockerfile:
        return None
    of_machine = row.machines.get(machine, {})
    arguments = {**row.arguments, **(of_machine if isinstance(of_machine, Mapping) else {})}
    return Stage(name, row.dockerfile, pinned(row.on, machine), tuple(arguments.items()), machine=machine)


def pinned(name: str, machine: str) -> str:
    """Return the reference, with its digest, of an image that is pulled; "" for a machine type without one."""
    return str(image_table.row(name).machines.get(machine, ""))


def _with_toolkit(row: ImageRow, toolkit: str, machine: str) -> Stage:
    below = stage_of(row.on, machine)
    assert below is not None  # noqa: S101  images.toml puts toolkits on images that are made
    return Stage(
        row.name,
        "debian/cuda.Dockerfile",
        below,
        (("HOST_COMPILER", row.host_compiler), ("TOOLKIT", toolkit)),
        toolkit=toolkit,
        machine=machine,
    )


def _debian(row: ImageRow, machine: str) -> Stage:
    below = image_table.release(row.suite)
    arguments = (("PYTHON", below.python), ("PACKAGES", " ".join(row.packages)))
    return Stage(
        row.name,
        f"debian/{row.purpose}.Dockerfile",
        below,
        arguments if row.purpose == "build" else arguments[:1],
        cpython=_cpython(below, [minor for minor in row.pythons if minor != below.python], machine),
        also_from=row.also_from,
        machine=machine,
    )


def _cpython(below: DebianRelease, minors: list[str], machine: str) -> Stage:
    """Return the stage that compiles the Pythons that a release does not have."""
    return Stage(
        f"cpython-{below.suite}",
        "debian/cpython.Dockerfile",
        below,
        (("PYTHONS", " ".join(minors)),),
        sources=tuple(image_table.cpythons()[minor] for minor in minors),
        machine=machine,
    )
