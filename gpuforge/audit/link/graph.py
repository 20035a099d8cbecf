"""The link graph: which library each file loads, what provides it, and how it is found, over all the wheels given.

The graph also carries what these wheels are compared with: the manifest's expectation, what the build found in the
required packages, what a user's build brings, and what was found in files that were read completely. Linking does not
use them, and few rules do, but with them here every rule is a function of one value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gpuforge.audit import policy
from gpuforge.audit.evidence import Evidence
from gpuforge.audit.link.declared import Declared
from gpuforge.audit.link.edges import Edge, Key, LoadSet, key
from gpuforge.audit.link.opened import opens
from gpuforge.audit.link.resolve import Resolver
from gpuforge.audit.model import Openings, WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import stack
from gpuforge.cuda.provided import Provided
from gpuforge.grouping import grouped

if TYPE_CHECKING:
    from gpuforge.audit.against import Against
    from gpuforge.expectation import Expectation


_Of = TypeVar("_Of")


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """Everything the rules judge."""

    wheels: tuple[WheelFacts, ...]
    edges: tuple[Edge, ...]
    load_sets: tuple[LoadSet, ...]
    declared: Mapping[str, Mapping[str, Declared]]  # wheel -> package -> its declaration
    # wheel, file, what it opens by name
    opened: Mapping[tuple[str, str, str], Edge] = field(default_factory=dict)
    expectation: Expectation | None = None
    brought: Provided | None = None  # what a build found in the packages that the wheel requires
    against: Against | None = None  # what a user's own build brings
    # wheel -> why its part of the graph is not complete
    too_large: Mapping[str, str] = field(default_factory=dict)
    # a library in LD_LIBRARY_PATH -> the first folder that has it
    overriding: Mapping[str, str] = field(default_factory=dict)
    # whether all wheels are promised to work in one process, as by `[audit] beside`
    one_process: bool = False
    # of files that were read completely, as the expectation asks
    evidence: Mapping[Key, Evidence] = field(default_factory=dict)
    openings: Mapping[str, Openings] = field(default_factory=dict)  # by wheel, for `against`
    like: Mapping[str, WheelFacts] = field(default_factory=dict)  # wheel -> the one that it is compared with
    _chosen: dict[Callable[[Edge], bool], dict[Key, list[Edge]]] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def _by_loader(self) -> Mapping[Key, Sequence[Edge]]:
        return grouped((key(edge.loader), edge) for edge in self.edges)

    @cached_property
    def _by_target(self) -> Mapping[Key, Sequence[Edge]]:
        return grouped((key(o), edge) for edge in self.edges if (o := edge.provider.object) is not None)

    @cached_property
    def _by_wheel(self) -> Mapping[str, Sequence[Edge]]:
        return grouped((edge.loader.wheel, edge) for edge in self.edges)

    @cached_property
    def _named(self) -> Mapping[str, WheelFacts]:
        return {wheel.name: wheel for wheel in self.wheels}

    @cached_property
    def _given(self) -> Mapping[str, str]:
        return {wheel.project: wheel.name for wheel in self.wheels if wheel.project}

    @property
    def linked(self) -> Iterator[ElfObject]:
        """The objects of all wheels that the dynamic linker loads."""
        return (o for wheel in self.wheels for o in wheel.linked)

    def expectation_of(self, wheel: WheelFacts) -> Expectation | None:
        """Return the manifest's expectation of one wheel; a kernels wheel has its own."""
        return (
            self.expectation.kernels_wheels.get(wheel.project, self.expectation) if self.expectation else None
        )

    def wheel(self, name: str) -> WheelFacts:
        """Return the wheel of a name. Raises KeyError for one that was not given."""
        return self._named[name]

    def edges_of(self, wheel: WheelFacts) -> tuple[Edge, ...]:
        """Return the edges whose loader is in a wheel."""
        return tuple(self._by_wheel.get(wheel.name, ()))

    def from_object(self, binary: ElfObject) -> tuple[Edge, ...]:
        """Return the edges that begin at an object: one for each of its NEEDED entries."""
        return tuple(self._by_loader.get(key(binary), ()))

    @cached_property
    def _sets_of(self) -> Mapping[Key, Sequence[LoadSet]]:
        return grouped((key(each), load_set) for load_set in self.load_sets for each in load_set.objects)

    def load_sets_of(self, binary: ElfObject) -> Sequence[LoadSet]:
        """Return the load sets that an object is in."""
        return self._sets_of.get(key(binary), ())

    def roots(self, binary: ElfObject) -> Sequence[ElfObject]:
        """Return the objects that are the first of the load sets that an object is in."""
        return [load_set.root for load_set in self.load_sets_of(binary)]

    def opened_by(self, binary: ElfObject) -> tuple[Edge, ...]:
        """Return the edges to the libraries that an object opens by name."""
        edges = (self.opened.get((*key(binary), name)) for name in opens(binary))
        return tuple(filter(None, edges))

    def edges_where(self, condition: Callable[[Edge], bool]) -> Mapping[Key, Sequence[Edge]]:
        """Return the edges that meet a condition, by the wheels and files that they begin at.

        The answer is cached: the same few edges are looked for in hundreds of load sets.
        """
        if condition not in self._chosen:
            self._chosen[condition] = grouped((key(e.loader), e) for e in filter(condition, self.edges))
        return self._chosen[condition]

    def required_always(self, name: str) -> Iterator[Declared]:
        """Yield the packages that are installed with a wheel without extras, each by its shortest chain of lines.

        Requirements of other given wheels are read from those, not from the tables of known releases.
        """
        seen: set[str] = set()
        queue: deque[tuple[str, tuple[str, ...]]] = deque([(name, ())])
        while queue:
            wheel, via = queue.popleft()
            for found in self.declared[wheel].values():
                of_table = found.loaded_by in self._given and found.package != found.loaded_by
                if found.extra or of_table or found.package in seen:
                    continue
                seen.add(found.package)
                reached = found._replace(via=via)
                yield reached
                if found.package in self._given:
                    queue.append((self._given[found.package], reached.lines))

    def requires(self, name: str, project: str) -> bool:
        """Return whether a wheel requires a project, with or without an extra, directly or indirectly."""
        seen, queue = {name}, deque([name])
        while queue:
            known = self.declared[queue.popleft()]
            if project in known:
                return True
            further = {self._given[package] for package in known if package in self._given} - seen
            seen |= further
            queue.extend(further)
        return False

    def users(self, binary: ElfObject) -> tuple[Edge, ...]:
        """Return the edges that an object is the target of."""
        return tuple(self._by_target.get(key(binary), ()))


def build(
    wheels: Iterable[WheelFacts],
    expectation: Expectation | None = None,
    brought: Provided | None = None,
    against: Against | None = None,
) -> LinkGraph:
    """Resolve every NEEDED entry of every object in the wheels, load set by load set."""
    given = tuple(wheels)
    resolver = Resolver(given)
    copies = {key(copy): library for w in given for copy, library in _linkers_names(w)}
    objects = [o for w in given for o in w.linked if key(o) not in copies]
    opened = {key(o) for w in given for o in w.objects if any(p.opens(o.name, o.soname) for p in w.preloads)}
    sets = [resolver.load(root) for root in _roots(objects, opened)]
    reached = {key(o) for s in sets for o in s.objects}
    for found in objects:  # the rest need one another in circles: any of them may be the first
        if key(found) not in reached:
            sets.append(resolver.load(found))
            reached.update(key(o) for o in sets[-1].objects)
    for copy in (o for w in given for o in w.objects if key(o) in copies):
        for name in copy.needed:
            # missing if the wheel is too large
            if edge := resolver.edges.get((*key(copies[key(copy)]), name)):
                resolver.edges[(*key(copy), name)] = edge._replace(loader=copy)
    return LinkGraph(
        given,
        tuple(resolver.edges.values()),
        tuple(sets),
        resolver.installed.declared,
        resolver.opened,
        expectation,
        brought,
        against,
        resolver.too_large,
    )


def _linkers_names(wheel: WheelFacts) -> Iterator[tuple[ElfObject, ElfObject]]:
    """Yield the copies of libraries that were symbolic links for linkers (libx.so beside libx.so.1), with the library.

    A loader asks for the SONAME, so the copies find what the library finds, also through the RPATHs of others.
    """
    files = {o.file: o for o in wheel.linked}
    for found in files.values():
        library = files.get(f"{found.file.removesuffix(found.name)}{found.soname}")
        if library is None or library is found or library.needed != found.needed:
            continue
        checksum = wheel.checksums.get(found.file)  # files of a folder have none
        if checksum and checksum == wheel.checksums.get(library.file):
            yield found, library


def _roots(objects: list[ElfObject], opened: Collection[Key]) -> list[ElfObject]:
    """Return the objects that may be the first of a process.

    These are modules, programs, what no other object NEEDs, and what Python code of the wheel opens.
    """
    needed = {name for o in objects for name in o.needed if name not in (o.soname, o.name)}
    return [
        o
        for o in objects
        if o.is_python_module
        or key(o) in opened
        or (o.is_program and not o.soname)  # some libraries have a PT_INTERP and can also be started
        or (o.name not in needed and (not o.soname or o.soname not in needed))
    ]


class Dependency(NamedTuple):
    """A library of the wheel that a file loads, directly or through others."""

    object: ElfObject
    chain: tuple[str, ...]  # the libraries from the file to this one, this one included


def closure(
    graph: LinkGraph, wheel: WheelFacts, file: str, needed: Iterable[str], allowed: Iterable[str] = ()
) -> Iterator[Dependency]:
    """Yield the libraries of its own wheel that a file loads, the nearest first.

    `needed` is what it NEEDs by its own bytes: the graph does not have files that are named like sources. Libraries
    that `allowed` ones of a GPU stack load are not followed.
    """
    names = {name.casefold() for name in allowed}
    own = next((o for o in wheel.objects if o.file == file), None)
    queue = [Dependency(o, (o.name,)) for o in (_provided(graph, own) if own else _by_name(wheel, needed))]
    seen = {file}
    for loaded in queue:
        if loaded.object.file in seen:
            continue
        seen.add(loaded.object.file)
        yield loaded
        if (stack.member(loaded.object.name) or "").casefold() not in names:
            queue += [Dependency(o, (*loaded.chain, o.name)) for o in _provided(graph, loaded.object)]


def others(graph: LinkGraph, wheel: WheelFacts, evidence: Evidence, allowed: Iterable[str]) -> Iterator[str]:
    """Yield the libraries outside of wheel, system and GPU stacks that a file and its closure NEED."""
    needed = {name for part in evidence.parts for name in part.needs}
    loaded = [each.object for each in closure(graph, wheel, evidence.file, needed, allowed)]
    here = {name for each in loaded for name in (each.name, each.soname)}
    for each in loaded:
        needed.update(() if stack.member(each.name) else each.needed)
    for name in needed - here:
        if not (policy.is_system(name) or policy.is_system(name, musl=True) or stack.member(name)):
            yield name


def _provided(graph: LinkGraph, binary: ElfObject) -> list[ElfObject]:
    """Return the objects of its own wheel that an object NEEDs."""
    targets = (edge.provider.object for edge in graph.from_object(binary))
    return [target for target in targets if target is not None and target.wheel == binary.wheel]


def _by_name(wheel: WheelFacts, needed: Iterable[str]) -> list[ElfObject]:
    names = set(needed)
    return [o for o in wheel.objects if o.name in names or o.soname in names]
