"""Resolve NEEDED entries as the dynamic linker does, load set by load set."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from gpuforge.audit import layout, policy
from gpuforge.audit.layout import Route
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge, Key, LoadSet, Obstacle, Provider, Source, key
from gpuforge.audit.link.installed import Installed, is_for_machine, is_of_unpackaged_cuda
from gpuforge.audit.link.opened import opens
from gpuforge.audit.link.providers import Providers
from gpuforge.audit.model import WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.binary.window import Budget
from gpuforge.cuda import libraries
from gpuforge.errors import TooLargeError

_NEW = 5  # steps that resolving an entry costs; finding it resolved costs one


class _Loader(NamedTuple):
    """An object in a load set, and the objects that led to it."""

    object: ElfObject
    parent: "_Loader | None" = None
    inherited: int = 0  # folders in the RPATHs of the objects that led to it

    @property
    def ancestors(self) -> "Iterator[ElfObject]":
        """Yield the objects that led to it, the nearest first."""
        led = self.parent
        while led:
            yield led.object
            led = led.parent

    @property
    def root(self) -> ElfObject:
        """The object that was imported or started."""
        return next(reversed((self.object, *self.ancestors)))

    @property
    def folders(self) -> int:
        """The most folders that are searched for its NEEDED entries."""
        own = self.object.runpath or self.object.rpath or ()
        return len(own) + (self.inherited if self.object.runpath is None else 0)


class _Before(NamedTuple):
    """The libraries in a process that packages imported first have loaded."""

    objects: Mapping[Key, ElfObject] = MappingProxyType({})
    names: Mapping[str, _Loader] = MappingProxyType({})  # by the names that the linker knows
    packages: Mapping[Key, str] = MappingProxyType({})  # the package whose import loads each


def _better(known: Edge, edge: Edge) -> Edge:
    """Return the better edge of an entry in two load sets: the first that has a route, else the first."""
    better, worse = (edge, known) if edge.route and not known.route else (known, edge)
    return better._replace(unfound_from=better.unfound_from or worse.unfound_from)


class Resolver:
    """Walks load sets in the linker's order and keeps the best edge for each NEEDED entry."""

    def __init__(self, wheels: tuple[WheelFacts, ...]) -> None:
        """Start with what the wheels install, and no entry resolved."""
        self.edges: dict[tuple[str, str, str], Edge] = {}  # wheel, file, NEEDED
        self.opened: dict[tuple[str, str, str], Edge] = {}  # wheel, file, the name that it opens with dlopen
        self.installed = Installed(wheels)
        self._providers = Providers(self.installed)
        self._imported: dict[str, _Before] = {}
        self._costs = {
            wheel.name: _NEW + len(self.installed.declared[wheel.name]) // 4 + len(wheel.preloads)
            for wheel in wheels
        }
        self._budgets = {wheel.name: Budget(wheel.size) for wheel in wheels}
        self.too_large: dict[str, str] = {}  # wheel -> why its entries were not all resolved

    def load(self, root: ElfObject) -> LoadSet:
        """Load `root` as the linker does: breadth first, each name once; libraries of imported packages come before."""
        return LoadSet(root, tuple(self._loaded_names(root)[0].values()))

    def _loaded_names(self, root: ElfObject) -> tuple[dict[Key, ElfObject], dict[str, _Loader]]:
        """Return the objects that an import, or a program, loads, and the names by which they are known.

        These are the SONAME and the NEEDED entries that led to it; the file name alone is not (glibc's
        elf/dl-load.c, _dl_map_object). musl does not know SONAMEs (ldso/dynlink.c, load_library).
        """
        musl = self.installed.is_for_musl(root)
        before = _Before() if root.is_program else self._before(root.wheel)
        order = {key(root): root, **before.objects}
        loaded = dict(before.names)
        if root.soname and not musl:
            loaded[root.soname] = _Loader(root)
        queue = deque([_Loader(root)])
        loaders = []
        while queue:
            led = queue.popleft()
            loaders.append(led)
            loader = led.object
            for name in loader.needed:
                if not self._has_budget(loader.wheel, 1):
                    break
                entry = (loader.wheel, loader.file, name)
                known = self.edges.get(entry)
                if known and known.route and (name in loaded or self._is_apart(known)):
                    continue  # it is resolved, and loads nothing new
                if not self._has_budget(loader.wheel, self._costs[loader.wheel] + led.folders):
                    break
                edge = self._edge(led, name, loaded)
                if edge.route is None and edge.preload is None:
                    edge = edge._replace(unfound_from=root.file)
                self.edges[entry] = edge if known is None else _better(known, edge)
                found = edge.provider.object
                if found is None or (not edge.route and not edge.preload):
                    continue
                target = _Loader(found, led, led.folders)
                if key(found) not in order:
                    order[key(found)] = found
                    queue.append(target)
                for called in filter(None, (name, "" if musl else found.soname)):
                    loaded.setdefault(called, target)
        self._open(loaders, loaded)
        return order, loaded

    def _open(self, loaders: Iterable[_Loader], loaded: Mapping[str, _Loader]) -> None:
        """Resolve what the objects of a process open by name: glibc looks for it as for a NEEDED library of theirs."""
        for led in loaders:
            wheel, file = key(led.object)
            for name in opens(led.object):
                entry = (wheel, file, name)
                known = self.opened.get(entry)
                if (known and known.route) or not self._has_budget(wheel, self._costs[wheel] + led.folders):
                    continue
                edge = self._edge(led, name, loaded)
                self.opened[entry] = edge if known is None else _better(known, edge)

    def _has_budget(self, wheel: str, steps: int) -> bool:
        """Take steps out of a wheel's budget; False if it is exceeded."""
        if wheel in self.too_large:
            return False
        try:
            self._budgets[wheel].spend("edges", steps)
        except TooLargeError as error:
            self.too_large[wheel] = error.diagnostics[0].message
        return wheel not in self.too_large

    def _is_apart(self, edge: Edge) -> bool:
        """Return whether an edge leads to the system for every search path: no given wheel has a file of that name."""
        return edge.provider.source == "system" and edge.needed not in self.installed.file_names

    def _edge(self, led: _Loader, name: str, loaded: Mapping[str, _Loader]) -> Edge:
        loader = led.object
        packages = package_tables.candidates(name)
        if packages and is_of_unpackaged_cuda(loader.needed):
            known = self.installed.declared[loader.wheel]
            packages = tuple(p for p in packages if p.cuda is None or p.package in known)
        searched = packages or name in self.installed.file_names
        if name in loaded:
            found = loaded[name].object
            route = self._loaded(led, loaded[name])
            # by a path it is found even if the package is not imported first
            edge = self._searched(led, name, packages) if searched and route.package else None
            if edge and edge.route and edge.provider.object is found:
                return edge
            return Edge(loader, name, self._providers.of_object(loader, found), route)
        edge = self._searched(led, name, packages) if searched else None
        if edge and not (edge.obstacle and edge.obstacle.kind == "folder"):
            return edge
        otherwise = self._without_path(led, name, packages)
        return edge if edge and otherwise.reason else otherwise

    def _without_path(
        self, led: _Loader, name: str, packages: tuple[package_tables.PackageLibrary, ...]
    ) -> Edge:
        """Return the edge to a library of the system or the driver, else to one that packages have loaded."""
        loader = led.object
        source: Source
        if policy.is_on(name, loader, self.installed.musl.get(loader.wheel, ())):
            source = "system"
        elif libraries.is_driver(name):
            source = "driver"
        else:
            return self._providers.without_path(loader, name, packages, list(led.ancestors))
        if loader.no_default_folders and not policy.is_loader(name):
            preload = self._providers.preload_of(led.root, loader.wheel, name)
            return Edge(loader, name, Provider(source), None, preload, Obstacle("nodefaultlib"))
        return Edge(loader, name, Provider(source), Route(source))

    def _searched(
        self, led: _Loader, name: str, packages: tuple[package_tables.PackageLibrary, ...]
    ) -> Edge | None:
        """Return the edge to the file that search paths lead to; None if they lead to no file of this name."""
        loader = led.object
        # in a package that pip does not install with it, or by a path that is not everywhere: found only if it is there
        unsure: list[Edge] = []
        for entry in layout.search(loader, led.ancestors, musl=self.installed.is_for_musl(loader)):
            edge = self._reached(led, name, entry, packages)
            if edge is None or edge.provider.lacking:
                continue
            found = edge.provider.object
            other = self.installed.other_python(found, loader) if found else ""
            if missing := self.installed.missing(entry, loader) or other:
                unsure.append(edge._replace(route=None, obstacle=Obstacle("folder", folder=missing)))
            elif edge.provider.source == "package" and not edge.provider.declared:
                unsure.append(edge)
            else:
                return edge
        return next(iter(unsure), None)

    def _reached(
        self,
        led: _Loader,
        name: str,
        entry: layout.SearchEntry,
        packages: tuple[package_tables.PackageLibrary, ...],
    ) -> Edge | None:
        """Return the edge to the library of a name in one folder, of the given wheels or of packages."""
        loader, place = led.object, f"{entry.folder}/{name}"
        if file := self.installed.not_library(place, loader):
            preload = self._providers.preload_of(led.root, loader.wheel, name)
            return Edge(loader, name, Provider("nobody"), None, preload, Obstacle("no library", file))
        if found := self.installed.there(place, loader):
            provider = self._providers.of_object(loader, found)
            if not is_for_machine(found, loader):
                return Edge(loader, name, provider, obstacle=Obstacle("machine", found.file))
            if found.is_refused:
                return Edge(loader, name, provider, obstacle=Obstacle("program", found.file))
            if found.no_dlopen and not led.root.is_program:
                return Edge(loader, name, provider, obstacle=Obstacle("nodlopen", found.file))
            return Edge(loader, name, provider, entry.route)
        reached = next((p for p in packages if entry.folder == f"{layout.SITE}/{p.folder}"), None)
        if reached is None:
            return None
        provider = self._providers.of_package(loader, name, packages, reached)
        return Edge(
            loader, name, provider, entry.route, self._providers.preload_of(led.root, loader.wheel, name)
        )

    def _loaded(self, led: _Loader, target: _Loader) -> Route:
        wheel, project = led.object.wheel, self.installed.projects[target.object.wheel]
        if target.object.wheel != wheel and self.installed.imports(wheel, project):
            return Route("import", package=project)
        before = _Before() if led.root.is_program else self._before(led.root.wheel)
        package = before.packages.get(key(target.object), "")
        return Route("loaded", package=package, loaded_by=target.parent.object.name if target.parent else "")

    def _before(self, wheel: str) -> _Before:
        """Return the libraries in the process before a wheel's objects: of the given packages that it imports first."""
        if wheel not in self._imported:
            self._imported[wheel] = _Before()  # ends the recursion for wheels that require each other
            objects: dict[Key, ElfObject] = {}
            names: dict[str, _Loader] = {}
            packages: dict[Key, str] = {}
            for package, module in self._modules_before(wheel):
                order, loaded = self._loaded_names(module)
                objects |= order
                names |= {name: target for name, target in loaded.items() if name not in names}
                packages |= {each: package for each in order if each not in packages}
            self._imported[wheel] = _Before(objects, names, packages)
        return self._imported[wheel]

    def _modules_before(self, wheel: str) -> Iterator[tuple[str, ElfObject]]:
        """Yield the modules of the packages that a wheel imports first, each with its package."""
        for package in sorted(self.installed.linked(wheel)):
            if self.installed.imports(wheel, package):
                modules = self.installed.modules.get(package, ())
                yield from ((package, module) for module in modules if module.wheel != wheel)
