"""Resolve NEEDED entries as the dynamic linker does, load set by load set."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuforge.audit import layout, policy
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge, LoadSet, Provider, key
from gpuforge.audit.link.installed import Installed
from gpuforge.audit.link.providers import Providers
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.route import Route
from gpuforge.binary.budget import Budget
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries
from gpuforge.errors import TooLargeError

_NEW = 5  # steps that resolving an entry counts for; finding it resolved counts for one


class _Loader(NamedTuple):
    """An object in a load set, and what led to it."""

    object: ElfObject
    parent: "_Loader | None" = None
    inherited: int = 0  # folders of the RPATHs of what led to it

    @property
    def ancestors(self) -> "Iterator[ElfObject]":
        """Yield what led to it, the nearest first."""
        led = self.parent
        while led:
            yield led.object
            led = led.parent

    @property
    def folders(self) -> int:
        """Folders that are searched for what it needs, at most."""
        own = self.object.runpath or self.object.rpath or ""
        return own.count(":") + (0 if self.object.runpath else self.inherited)


def _better(known: Edge, edge: Edge) -> Edge:
    """Return the better of the answers for an entry in two load sets: the first that has a route, else the first."""
    better, worse = (edge, known) if edge.route and not known.route else (known, edge)
    return better._replace(unfound_from=better.unfound_from or worse.unfound_from)


class Resolver:
    """Walks load sets in the linker's order and keeps the best answer for each NEEDED entry."""

    def __init__(self, wheels: tuple[WheelFacts, ...]) -> None:
        """Start with what the wheels install, and no entry resolved."""
        self.edges: dict[tuple[str, str, str], Edge] = {}  # wheel, file, NEEDED
        self.installed = Installed(wheels)
        self._providers = Providers(self.installed)
        self._imported: dict[str, tuple[ElfObject, ...]] = {}
        self._costs = {
            wheel.name: _NEW + len(self.installed.declared[wheel.name]) // 4 + len(wheel.preloads)
            for wheel in wheels
        }
        self._budgets = {wheel.name: Budget(wheel.size) for wheel in wheels}
        self.too_large: dict[str, str] = {}  # wheel -> why what needs its objects was not followed to the end

    def load(self, root: ElfObject) -> LoadSet:
        """Load `root` as the linker does: breadth first, each name once, after what its package imports first."""
        before = () if root.program else self._before(root.wheel)
        loaded: dict[str, ElfObject] = {}
        for first in (root, *before):
            for name in filter(None, (first.soname, first.name)):
                loaded.setdefault(name, first)
        order = [root, *(first for first in before if first is not root)]
        ordered = {key(first) for first in order}
        queue = deque([_Loader(root)])
        while queue:
            led = queue.popleft()
            loader = led.object
            for name in loader.needed:
                if not self._has_budget(loader.wheel, 1):
                    break
                entry = (loader.wheel, loader.file, name)
                known = self.edges.get(entry)
                if known and known.route and (name in loaded or self._is_apart(known)):
                    continue  # it is answered, and nothing comes in by it that is not there
                if not self._has_budget(loader.wheel, self._costs[loader.wheel] + led.folders):
                    break
                edge = self._edge(led, name, loaded)
                if edge.route is None and edge.preload is None:
                    edge = edge._replace(unfound_from=root.file)
                self.edges[entry] = edge if known is None else _better(known, edge)
                found = edge.provider.object
                if found is None or (not edge.route and not edge.preload):
                    continue
                if key(found) not in ordered:
                    ordered.add(key(found))
                    order.append(found)
                    queue.append(_Loader(found, led, led.folders))
                for called in (name, found.soname):
                    loaded.setdefault(called, found)
        return LoadSet(root, tuple(order))

    def _has_budget(self, wheel: str, steps: int) -> bool:
        """Take steps out of the budget of the wheel that they are taken in; False once it was overdrawn."""
        if wheel in self.too_large:
            return False
        try:
            self._budgets[wheel].spend("edges", steps)
        except TooLargeError as error:
            self.too_large[wheel] = error.diagnostics[0].message
        return wheel not in self.too_large

    def _is_apart(self, edge: Edge) -> bool:
        """Say whether an edge leads to the system for any search path: no wheel given has a file of that name."""
        return edge.provider.source == "system" and edge.needed not in self.installed.file_names

    def _edge(self, led: _Loader, name: str, loaded: Mapping[str, ElfObject]) -> Edge:
        loader = led.object
        if name in loaded:
            found = loaded[name]
            return Edge(loader, name, self._providers.of_object(loader, found), self._loaded(loader, found))
        packages = package_tables.candidates(name)
        searched = (
            layout.search(loader, led.ancestors) if packages or name in self.installed.file_names else ()
        )
        # of a package that pip does not install with it: found if it is there anyway
        uninstalled: Edge | None = None
        for entry in searched:
            if installed := self.installed.there(f"{entry.folder}/{name}", loader):
                return Edge(loader, name, self._providers.of_object(loader, installed), entry.route)
            if reached := next((p for p in packages if entry.folder == f"{layout.SITE}/{p.folder}"), None):
                provider = self._providers.of_package(loader, name, packages, reached)
                if provider.lacking:
                    continue
                edge = Edge(
                    loader, name, provider, entry.route, self._providers.preload_of(loader.wheel, name)
                )
                if provider.declared:
                    return edge
                uninstalled = uninstalled or edge
        if uninstalled:
            return uninstalled
        if policy.is_system(name, musl=policy.on_musl(loader, self.installed.musl.get(loader.wheel, ()))):
            return Edge(loader, name, Provider("system"), Route("system"))
        if libraries.is_driver(name):
            return Edge(loader, name, Provider("driver"), Route("driver"))
        return self._providers.without_path(loader, name, packages, led.ancestors)

    def _loaded(self, loader: ElfObject, found: ElfObject) -> Route:
        project = self.installed.projects[found.wheel]
        if found.wheel != loader.wheel and self.installed.imports(loader.wheel, project):
            return Route("import", project)
        return Route("loaded", via=found.name)

    def _before(self, wheel: str) -> tuple[ElfObject, ...]:
        """Return what is in the process before a wheel's objects: of the packages given that it imports first."""
        if wheel not in self._imported:
            self._imported[wheel] = ()  # ends a circle of wheels that require each other
            modules = [
                m
                for p in sorted(self.installed.linked(wheel))
                if self.installed.imports(wheel, p)
                for m in self.installed.modules.get(p, ())
            ]
            objects = {key(o): o for m in modules if m.wheel != wheel for o in self.load(m).objects}
            self._imported[wheel] = tuple(objects.values())
        return self._imported[wheel]
