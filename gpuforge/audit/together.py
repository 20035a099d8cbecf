"""The shared libraries that the wheels of an audit bring into one process, if all of them are imported.

It reads files, not a process: libraries whose names are put together at run time are not known.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Literal, NamedTuple

from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.processes import How, opens, own_runtimes, processes
from gpuforge.audit.rules.recognise import is_nvidia_library
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import carriers, libraries, releases, sonames, stack

Kind = Literal["CUDA runtime", "OpenMP runtime", "driver", "library"]
Origin = Literal["wheel", "package", "machine"]


class LibraryUse(NamedTuple):
    """A file that has a library in the process: by NEEDED, by static linking, or by opening its name."""

    wheel: str
    file: str
    how: How


class ProcessLibrary(NamedTuple):
    """A shared library in the process. The same name from another place is another library."""

    kind: Kind
    name: str  # the requested name: "libcudart.so.12"
    origin: Origin  # one of the wheels, a package that is not among them, or the machine
    provider: str  # the wheel or the package; "" for the machine
    file: str  # in the wheel
    uses: tuple[LibraryUse, ...]


class Together(NamedTuple):
    """The libraries of one process."""

    libraries: tuple[ProcessLibrary, ...]

    def of_kind(self, kind: Kind) -> tuple[ProcessLibrary, ...]:
        """Return the libraries of one kind."""
        return tuple(each for each in self.libraries if each.kind == kind)

    @property
    def driver(self) -> str:
        """The oldest NVIDIA driver for all of its CUDA runtimes, by their majors; "" if none is known."""
        majors = [sonames.major(each.name) for each in self.of_kind("CUDA runtime")]
        return releases.driver_of_cubins({f"{major}.0" for major in majors if major}, ())


_KINDS: tuple[Kind, ...] = ("CUDA runtime", "OpenMP runtime", "driver", "library")
_DRIVER = "libcuda.so.1"
_Identity = tuple[Kind, str, Origin, str, str]


def together(graph: LinkGraph) -> Together:
    """Return the libraries that all wheels of a graph bring into one process, without programs and CUDA variants."""
    objects = {(o.wheel, o.file): o for p in processes(graph) if p.scope == "wheel" for o in p.objects}
    found: dict[_Identity, dict[LibraryUse, None]] = {}
    environment = _Environment(graph)
    for place, use in _uses(graph, environment, objects.values()):
        found.setdefault(place, {})[use] = None
    for kind, _, origin, wheel, file in tuple(found):
        if kind == "CUDA runtime" and origin == "wheel":  # it opens the driver, also if none of it was read
            found.setdefault(environment.place(_DRIVER), {})[LibraryUse(wheel, file, "opened")] = None
    present = [ProcessLibrary(*place, tuple(uses)) for place, uses in found.items()]
    return Together(tuple(sorted(present, key=lambda i: (_KINDS.index(i.kind), i.name, i.provider, i.file))))


class _Environment:
    """The places of libraries that are opened by their names."""

    def __init__(self, graph: LinkGraph) -> None:
        self.projects = {wheel.project: wheel.name for wheel in graph.wheels if wheel.project}
        self._named: dict[str, tuple[str, str]] = {}
        for wheel in graph.wheels:
            for name, file in _libraries(wheel):
                self._named.setdefault(name, (wheel.name, file))

    def place(self, name: str) -> _Identity:
        """Return the place of a library that code opens by name: in a wheel that has it, else on the machine."""
        if name in self._named and not libraries.is_driver(name):
            wheel, file = self._named[name]
            return _kind(name), name, "wheel", wheel, file
        return _kind(name), name, "machine", "", ""

    def of_package(self, package: str, name: str) -> _Identity:
        """Return the place of a library in a package."""
        if package in self.projects:
            wheel = self.projects[package]
            known = (
                library.folder for library in package_tables.candidates(name) if library.package == package
            )
            folder = next(known, "")
            return _kind(name), name, "wheel", wheel, f"{folder}/{name}" if folder else ""
        return _kind(name), name, "package", package, ""


def _uses(
    graph: LinkGraph, environment: _Environment, objects: Iterable[ElfObject]
) -> Iterator[tuple[_Identity, LibraryUse]]:
    loaded = list(objects)
    # The linker reuses a library of the same SONAME from any place, and loads a second one only by its path.
    first: dict[str, _Identity] = {}
    for found in loaded:
        for edge in graph.from_object(found):
            if place := _linked(environment, edge):
                one = place if opens(graph, edge) else first.setdefault(place[1], place)
                yield one, LibraryUse(found.wheel, found.file, "linked")
        for name in sorted(found.mentioned_sonames - set(found.needed) - {found.soname}):
            yield environment.place(name), LibraryUse(found.wheel, found.file, "opened")
    yield from _own_runtimes(graph, environment, loaded)
    yield from _opened_by_python(graph, environment)


def _own_runtimes(
    graph: LinkGraph, environment: _Environment, objects: list[ElfObject]
) -> Iterator[tuple[_Identity, LibraryUse]]:
    """Yield the CUDA runtimes that objects contain or open; without GPU code their major is not known."""
    static = {
        (o.wheel, o.file): "libcudart.so"
        for o in objects
        if o.has_static_cudart and not is_nvidia_library(graph, o)
    }
    for own in own_runtimes(graph, objects):
        if (own.wheel, own.file) in static:
            static[own.wheel, own.file] = own.soname
        else:
            yield environment.place(own.soname), LibraryUse(own.wheel, own.file, "opened")
    for (wheel, file), name in static.items():
        yield ("CUDA runtime", name, "wheel", wheel, file), LibraryUse(wheel, file, "static")


def _linked(environment: _Environment, edge: Edge) -> _Identity | None:
    target = edge.provider.object
    if target is not None:
        name = target.soname or target.name
        return (_kind(name), name, "wheel", target.wheel, target.file) if edge.route or edge.preload else None
    if edge.provider.source == "package":
        known = edge.provider.declared or edge.preload or edge.provider.package in environment.projects
        return (
            environment.of_package(edge.provider.package, edge.needed)
            if known
            else environment.place(edge.needed)
        )
    return environment.place(edge.needed)


def _opened_by_python(graph: LinkGraph, environment: _Environment) -> Iterator[tuple[_Identity, LibraryUse]]:
    """Yield the libraries of NVIDIA's packages that Python files of other wheels name as loaded."""
    brought = [
        (name, sonames.bare(name))
        for wheel in graph.wheels
        if wheel.project in carriers.nvidia_packages()
        for name, _ in _libraries(wheel)
    ]
    for wheel in graph.wheels:
        for loading in (p for p in wheel.preloads if not (p.bare or p.ops or p.uncalled)):
            listed = loading.listed if loading.pathfinder else frozenset[str]()
            for name, stem in brought:
                if loading.opens(name) or {name, stem} & listed:
                    yield environment.place(name), LibraryUse(wheel.name, loading.file, "opened")


def _libraries(wheel: WheelFacts) -> Iterator[tuple[str, str]]:
    """Yield the names under which libraries of a wheel are requested, with their files."""
    seen = {o.file for o in wheel.objects}
    for found in wheel.objects:
        if found.links and not found.is_program and not found.is_python_module:
            yield found.soname or found.name, found.file
    for file in wheel.members if wheel.project in carriers.nvidia_packages() else ():
        name = file.rpartition("/")[2]
        if ".so." in name and file not in seen:  # its files have only these names
            yield name, file


@cache
def _kind(name: str) -> Kind:
    plain = sonames.plain_name(name)
    if libraries.is_cudart(plain):
        return "CUDA runtime"
    if libraries.is_openmp(plain):
        return "OpenMP runtime"
    return "driver" if libraries.is_driver(plain) or stack.is_loader(plain) else "library"
