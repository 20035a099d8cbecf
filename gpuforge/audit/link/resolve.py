"""Resolve NEEDED entries as the dynamic linker does, load set by load set."""

from collections import deque
from collections.abc import Mapping

from gpuforge.audit import policy
from gpuforge.audit.link import layout, package_tables
from gpuforge.audit.link.edges import Edge, LoadSet, Provider, key
from gpuforge.audit.link.installed import Installed
from gpuforge.audit.link.providers import Providers
from gpuforge.audit.link.route import Route
from gpuforge.audit.model import WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries


class Resolver:
    """Walks load sets in the linker's order and keeps the best answer for each NEEDED entry."""

    def __init__(self, wheels: tuple[WheelFacts, ...]) -> None:
        """Start with what the wheels install, and no entry resolved."""
        self.edges: dict[tuple[str, str, str], Edge] = {}  # wheel, file, NEEDED
        self.installed = Installed(wheels)
        self._providers = Providers(self.installed)
        self._imported: dict[str, tuple[ElfObject, ...]] = {}

    def load(self, root: ElfObject) -> LoadSet:
        """Load `root` as the linker does: breadth first, each name once, after what its package imports first."""
        before = () if root.program else self._before(root.wheel)
        loaded: dict[str, ElfObject] = {}
        for first in (root, *before):
            for name in filter(None, (first.soname, first.name)):
                loaded.setdefault(name, first)
        order = [root, *(first for first in before if first is not root)]
        ordered = {key(first) for first in order}
        queue: deque[tuple[ElfObject, tuple[ElfObject, ...]]] = deque([(root, ())])
        while queue:
            loader, ancestors = queue.popleft()
            for name in loader.needed:
                entry = (loader.wheel, loader.file, name)
                known = self.edges.get(entry)
                if known and known.route and (name in loaded or self._is_apart(known)):
                    continue  # it is answered, and nothing comes in by it that is not there
                edge = self._edge(loader, name, ancestors, loaded)
                if known is None or (edge.route and not known.route):
                    self.edges[entry] = edge
                found = edge.provider.object
                if found is None or (not edge.route and not edge.preload):
                    continue
                if key(found) not in ordered:
                    ordered.add(key(found))
                    order.append(found)
                    queue.append((found, (loader, *ancestors)))
                for called in (name, found.soname):
                    loaded.setdefault(called, found)
        return LoadSet(root, tuple(order))

    def _is_apart(self, edge: Edge) -> bool:
        """Say whether an edge leads to the system for any search path: no wheel given has a file of that name."""
        return edge.provider.source == "system" and edge.needed not in self.installed.file_names

    def _edge(
        self, loader: ElfObject, name: str, ancestors: tuple[ElfObject, ...], loaded: Mapping[str, ElfObject]
    ) -> Edge:
        if name in loaded:
            found = loaded[name]
            return Edge(loader, name, self._providers.of_object(loader, found), self._loaded(loader, found))
        packages = package_tables.candidates(name)
        searched = layout.search(loader, ancestors) if packages or name in self.installed.file_names else ()
        # of a package that pip does not install with it: found if it is there anyway
        uninstalled: Edge | None = None
        for entry in searched:
            if there := self.installed.at.get(f"{entry.folder}/{name}"):
                installed = self.installed.owned(loader.wheel, there)
                return Edge(loader, name, self._providers.of_object(loader, installed), entry.route)
            if reached := next((p for p in packages if entry.folder == f"{layout.SITE}/{p.folder}"), None):
                provider = self._providers.of_package(loader, packages, reached)
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
        return self._providers.without_path(loader, name, packages, ancestors)

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
