"""The link graph: who loads what, who provides it, and how it is found; over all the wheels given."""

import posixpath
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from packaging.utils import canonicalize_name

from gpuforge.audit import policy
from gpuforge.audit.host.evidence import Evidence
from gpuforge.audit.intent import Intent
from gpuforge.audit.link import declared, layout
from gpuforge.audit.link.declared import Declared
from gpuforge.audit.model import Preload, WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries
from gpuforge.cuda.provided import Provided

if TYPE_CHECKING:
    from gpuforge.audit.against import Against

Source = Literal["wheel", "sibling", "package", "system", "driver", "nobody"]
Key = tuple[str, str]  # wheel, file


class Provider(NamedTuple):
    """Who supplies a NEEDED library."""

    source: Source
    object: ElfObject | None = None  # for "wheel" and "sibling"
    package: str = ""  # for "package": the one that is declared, else the one that would have it
    declared: Declared | None = None


class Edge(NamedTuple):
    """One NEEDED entry, resolved. `route` is how the library comes to be found; "" when it is not."""

    loader: ElfObject
    needed: str
    provider: Provider
    route: str = ""
    preload: Preload | None = None  # the Python file that loads it beforehand


class LoadSet(NamedTuple):
    """What one import, or one program, pulls into its process from the wheels given."""

    root: ElfObject
    objects: tuple[ElfObject, ...]


class LinkGraph:
    """Everything the rules judge."""

    def __init__(
        self,
        wheels: tuple[WheelFacts, ...],
        edges: tuple[Edge, ...],
        load_sets: tuple[LoadSet, ...],
        declared: Mapping[str, Mapping[str, Declared]],
        intent: Intent | None = None,
        brought: Provided | None = None,
        against: "Against | None" = None,
    ) -> None:
        """Take `declared` as: wheel, package, how it is declared; `against` is what a user's own build brings."""
        self.wheels = wheels
        self.edges = edges
        self.load_sets = load_sets
        self.declared = declared
        self.intent = intent
        self.brought = brought  # what a build found out of the packages that the wheel requires
        self.against = against
        self.evidence: Mapping[Key, Evidence] = {}  # of files that were read completely, as the intent asks
        self._users: dict[Key, list[Edge]] = {}
        self._needs: dict[Key, list[Edge]] = {}
        self._given = {wheel.project: wheel.name for wheel in wheels if wheel.project}
        self._chosen: dict[Callable[[Edge], bool], dict[Key, list[Edge]]] = {}
        for edge in edges:
            self._needs.setdefault(_key(edge.loader), []).append(edge)
            if edge.provider.object is not None:
                self._users.setdefault(_key(edge.provider.object), []).append(edge)

    def intent_of(self, wheel: WheelFacts) -> Intent | None:
        """Return what a manifest promises of one wheel: a kernels wheel has a part of its own."""
        return self.intent.kernels_wheels.get(wheel.project, self.intent) if self.intent else None

    def of(self, wheel: WheelFacts) -> tuple[Edge, ...]:
        """Return the edges whose loader is in a wheel."""
        return tuple(edge for edge in self.edges if edge.loader.wheel == wheel.name)

    def from_object(self, found: ElfObject) -> tuple[Edge, ...]:
        """Return the edges that begin at an object: one for each of its NEEDED entries."""
        return tuple(self._needs.get(_key(found), ()))

    def those(self, question: Callable[[Edge], bool]) -> Mapping[Key, Sequence[Edge]]:
        """Return the edges of which something is true, by the wheels and files that they begin at.

        Each function is asked once: the same few edges are looked for in hundreds of load sets.
        """
        if question not in self._chosen:
            found = self._chosen[question] = {}
            for edge in filter(question, self.edges):
                found.setdefault(_key(edge.loader), []).append(edge)
        return self._chosen[question]

    def always(self, name: str) -> Iterator[Declared]:
        """Yield what is installed with a wheel without an extra, each package by the shortest way to it.

        What another of the wheels given requires is read there, and not in the tables of known releases.
        """
        seen: set[str] = set()
        queue: deque[tuple[str, str]] = deque([(name, "")])
        while queue:
            wheel, way = queue.popleft()
            for found in self.declared[wheel].values():
                of_table = found.loaded_by in self._given and found.package != found.loaded_by
                if found.extra or of_table or found.package in seen:
                    continue
                seen.add(found.package)
                line = f"{way} → {found.line}" if way else found.line
                yield found._replace(line=line)
                if found.package in self._given:
                    queue.append((self._given[found.package], line))

    def requires(self, name: str, project: str) -> bool:
        """Say whether a wheel requires a project, always or in an extra, or what it requires does."""
        seen, queue = {name}, deque([name])
        while queue:
            known = self.declared[queue.popleft()]
            if project in known:
                return True
            further = {self._given[package] for package in known if package in self._given} - seen
            seen |= further
            queue.extend(further)
        return False

    def users(self, found: ElfObject) -> tuple[Edge, ...]:
        """Return the edges that an object is the target of."""
        return tuple(self._users.get(_key(found), ()))


def build(
    wheels: Iterable[WheelFacts],
    intent: Intent | None = None,
    brought: Provided | None = None,
    against: "Against | None" = None,
) -> LinkGraph:
    """Resolve every NEEDED entry of every object in the wheels, load set by load set."""
    held = tuple(wheels)
    resolver = _Resolver(held)
    copies = {_key(copy): library for w in held for copy, library in _linkers_names(w)}
    objects = [o for w in held for o in w.objects if o.links and _key(o) not in copies]
    sets = [resolver.load(root) for root in _roots(objects)]
    reached = {_key(o) for s in sets for o in s.objects}
    for found in objects:  # what is left needs one another in a circle: any of it may be the first
        if _key(found) not in reached:
            sets.append(resolver.load(found))
            reached.update(_key(o) for o in sets[-1].objects)
    for copy in (o for w in held for o in w.objects if _key(o) in copies):
        for name in copy.needed:
            edge = resolver.edges[(*_key(copies[_key(copy)]), name)]
            resolver.edges[(*_key(copy), name)] = edge._replace(loader=copy)
    return LinkGraph(
        held, tuple(resolver.edges.values()), tuple(sets), resolver.declared, intent, brought, against
    )


def _key(found: ElfObject) -> Key:
    return found.wheel, found.file


def _linkers_names(wheel: WheelFacts) -> Iterator[tuple[ElfObject, ElfObject]]:
    """Yield the copies of libraries that were symbolic links for linkers (libx.so beside libx.so.1), with the library.

    What loads them asks for the SONAME, so they find what it finds, also through the RPATHs of others.
    """
    files = {o.file: o for o in wheel.objects if o.links}
    for found in files.values():
        library = files.get(f"{found.file.removesuffix(found.name)}{found.soname}")
        if library is None or library is found or library.needed != found.needed:
            continue
        checksum = wheel.checksums.get(found.file)  # files of a folder have none
        if checksum and checksum == wheel.checksums.get(library.file):
            yield found, library


def _roots(objects: list[ElfObject]) -> list[ElfObject]:
    wanted = {name for o in objects for name in o.needed if name not in (o.soname, o.name)}
    return [o for o in objects if o.name not in wanted and (not o.soname or o.soname not in wanted)]


def _cuda_major(needed: Iterable[str]) -> int | None:
    """Return the CUDA major that libraries are for, as far as SONAMEs of one major alone tell."""
    known = [declared.candidates(name) for name in needed]
    majors = Counter(found[0].cuda for found in known if len({library.cuda for library in found}) == 1)
    majors.pop(None, None)
    return majors.most_common(1)[0][0] if majors else None


def _into(package: str, searched: Iterable[layout.SearchEntry]) -> str:
    """Return the search path that leads into a folder of a package: libx-cu12 installs into libx.

    Of NVIDIA's packages the folder is known, and is the same for SONAMEs of releases that no table has.
    """
    folders = {posixpath.dirname(file) for file in declared.files(package)}
    for entry in searched:
        place = entry.folder.removeprefix(f"{layout.SITE}/")
        if place in folders or canonicalize_name(place.partition("/")[0]) == declared.plain(package):
            return entry.why
    return ""


class _Resolver:
    """Walks load sets in the linker's order and remembers the best answer for each NEEDED entry."""

    def __init__(self, wheels: tuple[WheelFacts, ...]) -> None:
        self.edges: dict[tuple[str, str, str], Edge] = {}
        given = declared.by_project(wheels)
        self.declared = {wheel.name: declared.packages(wheel, given) for wheel in wheels}
        self._majors = {w.name: _cuda_major(n for o in w.objects for n in o.needed) for w in wheels}
        self._preloads = {wheel.name: wheel.preloads for wheel in wheels}
        self._projects = {wheel.name: wheel.project for wheel in wheels}
        self._musl = {w.name: w.platforms for w in wheels if any(p.startswith("musl") for p in w.platforms)}
        self._wanted = {wheel.name: {name for o in wheel.objects for name in o.needed} for wheel in wheels}
        self._installed: dict[str, dict[str, ElfObject]] = {}  # place -> wheel -> what it puts there
        self._named: dict[str, list[ElfObject]] = {}
        self._modules: dict[str, list[ElfObject]] = {}  # project -> its Python modules
        self._imported: dict[str, tuple[ElfObject, ...]] = {}
        for found in (o for w in wheels for o in w.objects if o.links):
            self._installed.setdefault(layout.install_path(found.file), {})[found.wheel] = found
            for name in dict.fromkeys((found.soname or found.name, found.name)):
                self._named.setdefault(name, []).append(found)
            if "python-module" in found.markers:
                self._modules.setdefault(self._projects[found.wheel], []).append(found)
        for wheel in wheels:
            for link in wheel.links:
                self._link(wheel, link)
        self._there = {posixpath.basename(place) for place in self._installed}

    def _link(self, wheel: WheelFacts, link: str) -> None:
        """Install what a symbolic link leads to, also through others, under the link's own name."""
        target, passed = link, set[str]()
        while target in wheel.links and target not in passed:
            passed.add(target)
            target = wheel.links[target]
        if found := self._installed.get(layout.install_path(target)):
            self._installed.setdefault(layout.install_path(link), found)

    def load(self, root: ElfObject) -> LoadSet:
        """Load `root` as the linker does: breadth first, each name once, after what its package imports first."""
        before = () if root.program else self._before(root.wheel)
        loaded: dict[str, ElfObject] = {}
        for first in (root, *before):
            for name in filter(None, (first.soname, first.name)):
                loaded.setdefault(name, first)
        order = [root, *(first for first in before if first is not root)]
        ordered = {_key(first) for first in order}
        queue: deque[tuple[ElfObject, tuple[ElfObject, ...]]] = deque([(root, ())])
        while queue:
            loader, ancestors = queue.popleft()
            for name in loader.needed:
                key = (loader.wheel, loader.file, name)
                known = self.edges.get(key)
                if known and known.route and (name in loaded or self._is_apart(known)):
                    continue  # it is answered, and nothing comes in by it that is not there
                edge = self._edge(loader, name, ancestors, loaded)
                if known is None or (edge.route and not known.route):
                    self.edges[key] = edge
                found = edge.provider.object
                if found is None or (not edge.route and not edge.preload):
                    continue
                if _key(found) not in ordered:
                    ordered.add(_key(found))
                    order.append(found)
                    queue.append((found, (loader, *ancestors)))
                for called in (name, found.soname):
                    loaded.setdefault(called, found)
        return LoadSet(root, tuple(order))

    def _is_apart(self, edge: Edge) -> bool:
        """Say whether an edge leads to the system's library whatever the search paths of others: nobody else has it."""
        return edge.provider.source == "system" and edge.needed not in self._there

    def _edge(
        self, loader: ElfObject, name: str, ancestors: tuple[ElfObject, ...], loaded: Mapping[str, ElfObject]
    ) -> Edge:
        if name in loaded:
            found = loaded[name]
            imported = found.wheel != loader.wheel and self._imports(
                loader.wheel, self._projects[found.wheel]
            )
            why = f"import {self._projects[found.wheel]}" if imported else f"loaded before it by {found.name}"
            return Edge(loader, name, self._of_object(loader, found), why)
        packages = declared.candidates(name)
        searched = layout.search(loader, ancestors) if packages or name in self._there else ()
        # of a package that pip does not install with it: found if it is there anyway
        uninstalled: Edge | None = None
        for entry in searched:
            if there := self._installed.get(f"{entry.folder}/{name}"):
                installed = self._owned(loader.wheel, there)
                return Edge(loader, name, self._of_object(loader, installed), entry.why)
            if reached := next((p for p in packages if entry.folder == f"{layout.SITE}/{p.folder}"), None):
                provider = self._of_package(loader, packages, reached)
                edge = Edge(loader, name, provider, entry.why, self._preload(loader.wheel, name))
                if provider.declared:
                    return edge
                uninstalled = uninstalled or edge
        if uninstalled:
            return uninstalled
        if policy.is_system(name, musl=policy.on_musl(loader, self._musl.get(loader.wheel, ()))):
            return Edge(loader, name, Provider("system"), "the system")
        if libraries.is_driver(name):
            return Edge(loader, name, Provider("driver"), "the driver")
        return self._unrouted(loader, name, packages, ancestors)

    def _owned(self, wheel: str, there: dict[str, ElfObject]) -> ElfObject:
        """Return which of the files that wheels put in one place is a wheel's: its own, or one that it requires."""
        required = (o for w, o in there.items() if self._projects[w] in self.declared[wheel])
        return there.get(wheel) or next(required, None) or next(reversed(there.values()))

    def _imports(self, wheel: str, project: str) -> bool:
        """Say whether a wheel links with a package that it requires and that has loaded itself once imported."""
        known = self.declared[wheel].get(project)
        return known is not None and not known.extra and known.loaded_by == project

    def _before(self, wheel: str) -> tuple[ElfObject, ...]:
        """Return what is in the process before a wheel's objects: of the packages given that it imports first."""
        if wheel not in self._imported:
            self._imported[wheel] = ()  # ends a circle of wheels that require each other
            modules = [
                m
                for p in sorted(self._linked(wheel))
                if self._imports(wheel, p)
                for m in self._modules.get(p, ())
            ]
            objects = {_key(o): o for m in modules if m.wheel != wheel for o in self.load(m).objects}
            self._imported[wheel] = tuple(objects.values())
        return self._imported[wheel]

    def _unrouted(
        self,
        loader: ElfObject,
        name: str,
        packages: tuple[declared.Library, ...],
        ancestors: tuple[ElfObject, ...],
    ) -> Edge:
        preload = None if loader.program else self._preload(loader.wheel, name)
        for found in self._named.get(name, ()):
            if found.wheel == loader.wheel and found.name == name:
                return Edge(loader, name, Provider("wheel", found), preload=preload)
        if carrier := self._carrier(loader, name):
            provider = Provider("package", package=carrier.package, declared=carrier)
            if given := self._given(provider, name):
                provider = provider._replace(source="sibling", object=given)
            return Edge(loader, name, provider, f"import {carrier.loaded_by}", preload)
        if packages:
            provider = self._of_package(loader, packages, None)
            route = "" if loader.program else self._imported_with(loader.wheel, provider.declared)
            if given := self._given(provider, name):
                provider = provider._replace(source="sibling", object=given)
            return Edge(loader, name, provider, route, preload)
        namesake = self._namesake(loader.wheel, name)
        if others := [o for o in self._named.get(name, ()) if self._provides(o, loader.wheel, name)]:
            others.sort(key=lambda o: o.name != name)  # rather than a copy of it for linkers
            route, found = self._brought_by(loader.wheel, others, namesake)
            return Edge(loader, name, self._of_object(loader, found), route, preload)
        if namesake:
            provider = Provider("package", package=namesake.package, declared=namesake)
            route = f"import {namesake.package}"
            if loader.program:
                route = _into(namesake.package, layout.search(loader, ancestors))
            return Edge(loader, name, provider, route)
        return Edge(loader, name, Provider("nobody"), preload=preload)

    def _provides(self, found: ElfObject, wheel: str, name: str) -> bool:
        """Say whether a library of this name is what a wheel means, though no path leads to it.

        A name with a version, as libraries of the system have, is not that of a package which just happens to be there
        and has one, too: the linker looks in the system for it.
        """
        one, other = self._projects[wheel], self._projects[found.wheel]
        related = other in self.declared[wheel] or one in self.declared[found.wheel]
        unknown = not (one and other)  # a folder or a binary says nothing of what it requires
        return one == other or related or unknown or name.endswith(".so")

    def _imported_with(self, wheel: str, known: Declared | None) -> str:
        """Return the import that has a declared package's libraries loaded: "import torch".

        Of a package in an extra only if objects of the wheel link with it: others work without, and do not import it.
        """
        if known is None or not known.loaded_by:
            return ""
        if known.extra and known.loaded_by not in self._linked(wheel):
            unlisted = (name for name in self._wanted[wheel] if not declared.candidates(name))
            namesakes = (self._namesake(wheel, name) for name in unlisted)
            if not any(found and found.loaded_by == known.loaded_by for found in namesakes):
                return ""
        return f"import {known.loaded_by}"

    def _linked(self, wheel: str) -> set[str]:
        """Return the packages that are known to have what objects of a wheel need."""
        return {library.package for name in self._wanted[wheel] for library in declared.candidates(name)}

    def _carrier(self, loader: ElfObject, name: str) -> Declared | None:
        """Return the required package that has loaded a library of its own by this SONAME once it is imported."""
        if loader.program:
            return None
        known = self.declared[loader.wheel].values()
        return next((d for d in known if name in d.carries and d.loaded_by and not d.extra), None)

    def _brought_by(
        self, wheel: str, others: list[ElfObject], namesake: Declared | None
    ) -> tuple[str, ElfObject]:
        """Return which of several libraries of one name, of other wheels, it is, and the import that loads it."""
        for found in others:
            project = self._projects[found.wheel]
            called = namesake is not None and namesake.package == project
            if (called and self._has_code(found.wheel)) or self._imports(wheel, project):
                return f"import {project}", found
        return "", others[0]

    def _has_code(self, wheel: str) -> bool:
        """Say whether a wheel has what can be imported, and then loads libraries: others are for a path to them."""
        return bool(self._preloads[wheel] or self._modules.get(self._projects[wheel]))

    def _namesake(self, wheel: str, name: str) -> Declared | None:
        """Return the required package that is called like a library: libcuvs-cu12 has libcuvs_c.so, and loads it."""
        stem = canonicalize_name(name.partition(".so")[0])
        for package, known in self.declared[wheel].items():
            plain = declared.plain(package).removeprefix("nvidia-")
            bare = stem.removeprefix("lib")
            if plain in (stem, bare) or stem.startswith(f"{plain}-") or plain.endswith(f"-{bare}"):
                return known
        return None

    def _of_object(self, loader: ElfObject, found: ElfObject) -> Provider:
        return Provider("wheel" if found.wheel == loader.wheel else "sibling", found)

    def _of_package(
        self, loader: ElfObject, packages: tuple[declared.Library, ...], reached: declared.Library | None
    ) -> Provider:
        known = self.declared[loader.wheel]
        order = [p for p in packages if reached is None or p.folder == reached.folder]
        for library in order:
            found = known.get(library.package)
            if found and library.soname not in found.lacks:
                return Provider("package", package=library.package, declared=found)
        major = _cuda_major(loader.needed) or self._majors[loader.wheel]
        likely = [p for p in order if p.cuda == major] or order
        return Provider("package", package=likely[-1].package)

    def _given(self, provider: Provider, name: str) -> ElfObject | None:
        """Return a declared package's own library when its wheel was given, too."""
        if provider.declared is None:
            return None
        of_package = (o for o in self._named.get(name, ()) if self._projects[o.wheel] == provider.package)
        return next(of_package, None)

    def _preload(self, wheel: str, name: str) -> Preload | None:
        """Return the Python file of a wheel that says it loads this library."""
        stem = name.partition(".so")[0].removeprefix("lib")
        for preload in self._preloads[wheel]:
            if not preload.bare and _covers(preload, name, stem, self.declared[wheel]):
                return preload
        return None


def _covers(preload: Preload, name: str, stem: str, known: Mapping[str, Declared]) -> bool:
    """Say whether a Python file names a library, or what it lies in, among what it loads by itself."""
    if preload.ops:
        return False
    if stem in preload.names or name in preload.names:
        return True
    packages = declared.candidates(name)
    if preload.folders and any(declared.stems(library.package) & preload.names for library in packages):
        return True
    if preload.fixed or not (preload.pathfinder or preload.everything):
        return False
    words = {
        word
        for library in packages
        if preload.pathfinder or library.package in known
        for word in (stem, *declared.stems(library.package), *library.folder.split("/")[1:-1])
    }
    return bool(words & preload.listed)
