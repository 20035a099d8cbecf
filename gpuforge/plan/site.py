"""The places of work: this machine or container images, and the programs found there, host compilers among them."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from gpuforge.cuda import releases
from gpuforge.cuda.version import numbers_of
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import MissingError, UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import DeclaredToolchain, Manifest
from gpuforge.plan.cell import Cell
from gpuforge.toolchains import cpython, registry
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


class Location(NamedTuple):
    """One site with everything that was found there for the chosen cells."""

    image: ContainerImage | None
    hosts: Mapping[str, Compiler]  # by Cell.cuda: the compiler of host code that its toolkit takes
    interpreters: Mapping[str, Interpreter]  # by Cell.python
    toolkits: Mapping[str, Toolkit]  # by Cell.cuda
    tests: Location | None = None  # where its wheels are tested, when that is elsewhere
    usual: Compiler | None = None  # the compiler of host code without a toolkit
    others: Mapping[str, Compiler] = MappingProxyType({})
    """By toolchain: the compilers of fallback libraries that the host toolchain does not compile."""

    @property
    def machine(self) -> str:
        """Its machine type: "x86_64"."""
        return self.image.inventory.machine if self.image else platform.machine()

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


class Machine(NamedTuple):
    """Where each part of the work is done: on this machine, or in one or more images, the preferred one first.

    Images of another machine type come after those of this one. Kernels for GPUs are the same for all types.
    """

    locations: tuple[Location, ...]
    host_cuda: bool = True  # whether host builds are given a toolkit: `[build] cuda` of the manifest

    def at(self, cell: Cell) -> Location:
        """Return where a cell is built: the first of its type that has its toolkit, host compiler and Python."""
        return next(
            each
            for each in self.locations
            if each.machine == cell.machine and cell.cuda in each.hosts and cell.python in each.interpreters
        )

    def suffix(self, machine: str) -> str:
        """Return what tells actions of another machine type apart in their ids: "-aarch64"; "" for the first type."""
        return "" if machine == self.locations[0].machine else f"-{machine}"

    def host_at(self, cell: Cell) -> tuple[Location, Compiler]:
        """Return where a cell's host build runs, and its compiler; without a toolkit both are the same for all cells.

        They are then those of the place with the oldest C library, as the wheels are tested in every place.
        """
        if self.host_cuda:
            at = self.at(cell)
            return at, at.hosts[cell.cuda]
        found = [
            (each, each.usual)
            for each in self.locations
            if each.machine == cell.machine and each.usual and cell.python in each.interpreters
        ]
        return min(found, key=lambda pair: pair[0].glibc)

    def tested_at(self, cell: Cell) -> Location:
        """Return where a cell's wheel is tested: in a place without the tools that built it, if one has its Python."""
        built = self.at(cell)
        return built.tests if built.tests and cell.python in built.tests.interpreters else built

    def kernels_at(self, cuda: str, machine: str = "") -> Location:
        """Return where the kernels of `[cuda.<cuda>]` are compiled: one place for all Pythons.

        Those that are libraries depend on the `machine` type, others do not.
        """
        places = (each for each in self.locations if cuda in each.hosts)
        return next(each for each in places if machine in {"", each.machine})


def host_compiler(file: ManifestFile, site: Site) -> Compiler:
    """Return the compiler of the host build: the toolchain named "host", else the only C++ one, else g++.

    If it is not installed, it is fetched where possible.
    """
    return _compiler(file, *host_toolchain(file), site)


def library_compilers(file: ManifestFile, site: Site) -> dict[str, Compiler]:
    """Return the compilers of fallback libraries whose toolchain is not the host's, by that toolchain."""
    host, _ = host_toolchain(file)
    used = {
        item.toolchain: file.manifest.toolchain_of(item)
        for item in file.manifest.objects
        if item.role == "fallback" and item.form == "library" and item.toolchain not in {None, host}
    }
    return {
        name: _compiler(file, name, toolchain, site)
        for name, toolchain in used.items()
        if name and registry.toolchain(toolchain.compiler).compiles_libraries
    }


def _compiler(file: ManifestFile, name: str, toolchain: DeclaredToolchain, site: Site) -> Compiler:
    try:
        return site.detect(toolchain.compiler, path=toolchain.path, specifier=toolchain.version)
    except MissingError as error:
        offer = None if toolchain.path else site.offered(toolchain.compiler, toolchain.version or "")
        if offer and not offer.lacking:
            return offer.compiler
        place = file.place("toolchains", name) if name in file.manifest.toolchains else None
        hint = "name an image that has one (gpuforge images list)" if site.image else ""
        hint = hint or (to_install(offer) if offer and toolchain.version else "")
        raise MissingError.all_of(
            [Diagnostic(d.message, place, hint or d.hint) for d in error.diagnostics]
        ) from error


def host_compilers(
    file: ManifestFile, cudas: Iterable[str], site: Site, usual: Compiler
) -> dict[str, Compiler]:
    """Return the compiler of host code for each `[cuda.<name>]`: the usual one unless its toolkit refuses it.

    If the toolkit refuses it, another installed one is taken that fits the toolkit and the manifest's version range
    (g++-11 where g++ is too new), or one to fetch. If there is none, the usual one stays and `survey.impossible`
    reports the conflict.
    """
    return {name: _fitting(file, name, usual, site) or usual for name in cudas}


def _fitting(file: ManifestFile, cuda: str, usual: Compiler, site: Site) -> Compiler | None:
    """Return the first compiler that the toolkit takes, of the families that the manifest allows."""
    accepted_families = accepted(file, cuda, usual.family)
    low, high = _majors(file.manifest, cuda).get(usual.family, (1, 0))
    if low <= usual.version.major <= high:
        return usual
    for family, versions in accepted_families.items():
        try:
            return site.detect(family, path=None, specifier=versions)
        except MissingError:
            continue
    offers = (site.offered(family, versions) for family, versions in accepted_families.items())
    return next((offer.compiler for offer in offers if offer and not offer.lacking), None)


def accepted(file: ManifestFile, cuda: str, usual: str) -> dict[str, str]:
    """Return the version range of each compiler family that a toolkit and the manifest take, the usual one first.

    Empty when the manifest names a compiler by its path: no other is tried.
    """
    name, toolchain = host_toolchain(file)
    if toolchain.path is not None:
        return {}
    majors = _majors(file.manifest, cuda)
    families = [usual] if name in file.manifest.toolchains else [usual, *majors]
    of_manifest = [toolchain.version] if toolchain.version else []
    ranges = {family: [*of_manifest, f">={low}", f"<{high + 1}"] for family, (low, high) in majors.items()}
    return {family: ",".join(ranges[family]) for family in dict.fromkeys(families) if family in ranges}


def _majors(manifest: Manifest, cuda: str) -> Mapping[str, tuple[int, int]]:
    """Return the first and last major of each compiler family that the toolkit of `[cuda.<cuda>]` takes."""
    toolkit = manifest.cuda.versions[cuda].toolkit if cuda else ""
    return next((r.hosts for r in releases.releases() if r.version == toolkit), {})


def to_install(offer: Offer) -> str:
    """Return why a compiler is not fetched, and the command that installs it."""
    compiler = offer.compiler
    major = compiler.version.major
    return (
        f"gpuforge fetches {compiler.family} {compiler.version} for Debian and Ubuntu with a g++ of their own; "
        f"this machine lacks {', '.join(offer.lacking)}. Install one: "
        f"apt-get install {compiler.path.name}, or dnf install gcc-toolset-{major}-gcc-c++"
    )


def host_toolchain(file: ManifestFile) -> tuple[str, DeclaredToolchain]:
    """Return the manifest's host toolchain by the rule of `host_compiler`; raises UsageError when it is unclear."""
    declared = file.manifest.toolchains
    if "host" in declared:
        return "host", declared["host"]
    found = [(name, t) for name, t in declared.items() if "host build" in registry.toolchain(t.compiler).uses]
    if len(found) > 1:
        raise UsageError.of(
            f"which toolchain builds the host code: {', '.join(name for name, _ in found)}?",
            hint="name it [toolchains.host]",
            place=file.place("toolchains"),
        )
    return found[0] if found else ("host", DeclaredToolchain(compiler="g++"))


def host_keys(file: ManifestFile) -> tuple[str, str]:
    """Return the keys of the host toolchain's table in the manifest."""
    return "toolchains", host_toolchain(file)[0]


def host_place(file: ManifestFile) -> Place:
    """Return the place of that table."""
    return file.place(*host_keys(file))
