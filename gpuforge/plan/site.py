"""The places of work: this machine or container images, and the programs that are found there."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gpuforge.cuda.version import numbers_of
from gpuforge.plan.cell import Cell
from gpuforge.toolchains import cpython
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolchains.detect import detect
from gpuforge.toolchains.inventory import Inventory
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits import compilers
from gpuforge.toolkits.compilers import Offer
from gpuforge.toolkits.toolkit import Toolkit


class Site(Protocol):
    """A place of work: this machine or a container image, where programs can be looked for."""

    @property
    def image(self) -> ContainerImage | None:
        """The image; None for this machine itself."""

    def detect(self, family: str, *, path: str | None = None, specifier: str | None = None) -> Compiler:
        """Find a compiler; see `toolchains.detect.detect`."""

    def offered(self, family: str, specifier: str) -> Offer | None:
        """Return a compiler to fetch, and what it would lack there; None when none is known."""

    def find(self, minor: str, *, or_newer: bool = False) -> Interpreter:
        """Find an interpreter; see `toolchains.cpython.find`."""


@dataclass(frozen=True, slots=True)
class ContainerImage:
    """A container image that actions run in: `id` is its content's digest ("sha256:…"), `name` what it is called.

    `test` is the image that its wheels are tested in; None: itself. With `spare`, wheels of Pythons that `test` lacks
    are tested in the image itself.
    """

    id: str
    name: str
    inventory: Inventory
    test: ContainerImage | None = None
    spare: bool = False

    @property
    def image(self) -> ContainerImage:
        """The image itself."""
        return self

    def detect(self, family: str, *, path: str | None = None, specifier: str | None = None) -> Compiler:
        """Find a compiler in the image."""
        return self.inventory.detect(family, path=path, specifier=specifier)

    def offered(self, family: str, specifier: str) -> Offer | None:
        """Offer no compiler: an image has only those that it was made with."""
        return None

    def find(self, minor: str, *, or_newer: bool = False) -> Interpreter:
        """Find an interpreter in the image."""
        return self.inventory.find(minor, or_newer=or_newer)


class ThisMachine:
    """The machine that gpuforge runs on."""

    image = None

    def detect(self, family: str, *, path: str | None = None, specifier: str | None = None) -> Compiler:
        """Find a compiler on this machine."""
        return detect(family, path=path, specifier=specifier)

    def offered(self, family: str, specifier: str) -> Offer | None:
        """Return the newest compiler of Debian's packages in a version range."""
        return compilers.offered(family, specifier, platform.machine())

    def find(self, minor: str, *, or_newer: bool = False) -> Interpreter:
        """Find an interpreter on this machine."""
        return cpython.find(minor, or_newer=or_newer)


@dataclass(frozen=True, slots=True)
class Location:
    """One site with everything that was found there for the chosen cells."""

    image: ContainerImage | None
    hosts: Mapping[str, Compiler]  # by Cell.cuda: the compiler of host code that its toolkit takes
    interpreters: Mapping[str, Interpreter]  # by Cell.python
    toolkits: Mapping[str, Toolkit]  # by Cell.cuda
    tests: Location | None = None  # where its wheels are tested, when that is elsewhere
    usual: Compiler | None = None  # the compiler of host code without a toolkit

    @property
    def path(self) -> str:
        """Its PATH: that of the image, whose tools may lie anywhere; on this machine the system's, not the user's."""
        return self.image.inventory.path if self.image else "/usr/bin:/bin"

    @property
    def glibc(self) -> tuple[int, ...]:
        """The version of its C library, the newest that a wheel linked there can need; () for this machine."""
        return numbers_of(self.image.inventory.glibc) if self.image else ()

    @property
    def image_id(self) -> str | None:
        """The image's id, as actions name it; None for this machine."""
        return self.image.id if self.image else None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where each part of the work is done: on this machine, or in one or more images, the preferred one first."""

    locations: tuple[Location, ...]
    host_cuda: bool = True  # whether host builds are given a toolkit: `[build] cuda` of the manifest

    def at(self, cell: Cell) -> Location:
        """Return where a cell is built: the first that has its toolkit, host compiler and Python."""
        return next(
            each for each in self.locations if cell.cuda in each.hosts and cell.python in each.interpreters
        )

    def host_at(self, cell: Cell) -> tuple[Location, Compiler]:
        """Return where a cell's host build runs, and its compiler; without a toolkit both are the same for all cells.

        They are then those of the place with the oldest C library, as the wheels are tested in every place.
        """
        if self.host_cuda:
            at = self.at(cell)
            return at, at.hosts[cell.cuda]
        found = [
            (each, each.usual) for each in self.locations if each.usual and cell.python in each.interpreters
        ]
        return min(found, key=lambda pair: pair[0].glibc)

    def tested_at(self, cell: Cell) -> Location:
        """Return where a cell's wheel is tested: in a place without the tools that built it, if one has its Python."""
        built = self.at(cell)
        return built.tests if built.tests and cell.python in built.tests.interpreters else built

    def kernels_at(self, cuda: str) -> Location:
        """Return where the kernels of `[cuda.<cuda>]` are compiled: one place for all Pythons."""
        return next(each for each in self.locations if cuda in each.hosts)
