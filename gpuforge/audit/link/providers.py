"""Providers of libraries to which no search path leads: loaded by imports and preloads, or in likely packages."""

import posixpath
from collections.abc import Iterable, Mapping, Sequence

from packaging.utils import canonicalize_name

from gpuforge.audit import layout, policy
from gpuforge.audit.layout import Route, by_import
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.declared import Declared
from gpuforge.audit.link.edges import Edge, Provider, Unproved
from gpuforge.audit.link.installed import Installed, cuda_major
from gpuforge.audit.model import Preload
from gpuforge.binary.elf.header import MACHINES
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import carriers, sonames
from gpuforge.cuda.suffix import library_of, without_suffix


class Providers:
    """Finds the provider of a library, from the files and requirements of the given wheels."""

    def __init__(self, installed: Installed) -> None:
        """Look for providers in the installed wheels."""
        self.installed = installed

    def without_path(
        self,
        loader: ElfObject,
        name: str,
        packages: tuple[package_tables.PackageLibrary, ...],
        ancestors: Sequence[ElfObject],
    ) -> Edge:
        """Return the edge of an entry that is neither on a search path nor a library of the system."""
        first = next(reversed([loader, *ancestors]))
        preload = None if loader.is_program else self.preload_of(first, loader.wheel, name)
        for found in self.installed.by_name(name, loader):
            if found.wheel == loader.wheel and found.name == name:
                return Edge(loader, name, Provider("wheel", found), preload=preload)
        if carrier := self._carrier(loader, name):
            provider = _declared(carrier)
            if given := self._library_given(loader, provider, name):
                provider = provider._replace(source="sibling", object=given)
            return Edge(loader, name, provider, by_import(carrier.loaded_by), preload)
        if packages:
            provider = self.of_package(loader, name, packages, None)
            route = (
                None if loader.is_program else by_import(self._imported_with(loader.wheel, provider.declared))
            )
            if given := self._library_given(loader, provider, name):
                provider = provider._replace(source="sibling", object=given)
            return Edge(loader, name, provider, route, preload)
        same_named = self._same_named(loader.wheel, name)
        if others := [
            o for o in self.installed.by_name(name, loader) if self._provides(o, loader.wheel, name)
        ]:
            others.sort(key=lambda o: o.name != name)  # before a copy of it for linkers
            package, found = self._brought_by(loader.wheel, others, same_named)
            return Edge(loader, name, self.of_object(loader, found), by_import(package), preload)
        if same_named:
            listed = same_named.package in package_tables.listed()
            provider = _declared(same_named, "release" if listed else "name")
            route = self._into(same_named.package, loader, ancestors)
            if route is None and not loader.is_program:
                route = by_import(same_named.package)
            return Edge(loader, name, provider, route)
        return Edge(loader, name, Provider("nobody"), preload=preload)

    def _provides(self, binary: ElfObject, wheel: str, name: str) -> bool:
        """Return whether a wheel means this library by a name, though no path leads to it.

        A name with a version, as libraries of the system have, does not mean the library of an unrelated package that
        is also there: the linker looks for it in the system.
        """
        one, other = self.installed.projects[wheel], self.installed.projects[binary.wheel]
        related = other in self.installed.declared[wheel] or one in self.installed.declared[binary.wheel]
        unknown = not (one and other)  # a folder or a binary has no requirements to look at
        return one == other or related or unknown or name.endswith(".so")

    def _imported_with(self, wheel: str, declaration: Declared | None) -> str:
        """Return the package whose import loads a declared package's libraries: "torch"; "" for none.

        A package in an extra counts only if objects of the wheel link with it: other wheels work without it, and do not
        import it.
        """
        if declaration is None or not declaration.loaded_by:
            return ""
        if declaration.extra and declaration.loaded_by not in self._imports_of_linked(wheel):
            return ""
        return declaration.loaded_by

    def _imports_of_linked(self, wheel: str) -> set[str]:
        """Return the packages whose import loads what objects of a wheel link with; NVIDIA's need no import."""
        declared = self.installed.declared[wheel]
        found = set(self.installed.linked(wheel))
        for name in self.installed.needed[wheel]:
            libraries = package_tables.candidates(name)
            built_on = (declared.get(each.package) for each in libraries if each.cuda)
            of_cuda = (d for d in built_on if d and d.package not in carriers.nvidia_packages())
            same_named = None if libraries else self._same_named(wheel, name)
            found.update(d.loaded_by for d in (*of_cuda, *([same_named] if same_named else ())))
        return found

    def _carrier(self, loader: ElfObject, name: str) -> Declared | None:
        """Return the required package whose import loads a library of its own with this SONAME."""
        if loader.is_program:
            return None
        known = self.installed.declared[loader.wheel].values()
        return next((d for d in known if name in d.carries and d.loaded_by and not d.extra), None)

    def _brought_by(
        self, wheel: str, others: list[ElfObject], same_named: Declared | None
    ) -> tuple[str, ElfObject]:
        """Return which library of this name in other wheels is loaded, and the package whose import loads it."""
        for found in others:
            project = self.installed.projects[found.wheel]
            called = same_named is not None and same_named.package == project
            if (called and self._has_code(found.wheel)) or self.installed.imports(wheel, project):
                return project, found
        return "", others[0]

    def _has_code(self, wheel: str) -> bool:
        """Return whether a wheel has modules whose import loads libraries; else its libraries need a path to them."""
        return wheel in self.installed.with_code or bool(
            self.installed.modules.get(self.installed.projects[wheel])
        )

    def _same_named(self, wheel: str, name: str) -> Declared | None:
        """Return the required package that is named like a library and so may have it: libcuvs-cu12 has libcuvs_c.so.

        Of librmm-cu12 and rmm-cu12, the first has librmm.so.
        """
        stem = canonicalize_name(sonames.stem(name))
        bare = stem.removeprefix("lib")
        found = []
        for package, known in self.installed.declared[wheel].items():
            plain = library_of(package)
            if plain == stem:
                return known
            if plain == bare or stem.startswith(f"{plain}-") or plain.endswith(f"-{bare}"):
                found.append(known)
        return min(found, key=lambda known: bool(known.extra), default=None)

    def _into(self, package: str, loader: ElfObject, ancestors: Iterable[ElfObject]) -> Route | None:
        """Return the search path that leads into a folder of a package: libx-cu12 installs into libx.

        The folders of NVIDIA's packages are known, and are the same in releases that no table has. A folder that also
        contains the loader is that of a plug-in, and proves nothing.
        """
        folders = {posixpath.dirname(file) for file in package_tables.files(package)}
        for entry in layout.search(loader, ancestors):
            place = layout.Folder.of(entry.folder)
            own = place.top == layout.Folder.of(layout.install_path(loader.file)).top
            if self.installed.missing(entry, loader):
                continue
            if (place.among_packages and place.path in folders) or (
                canonicalize_name(place.top) == without_suffix(package) and not own
            ):
                return entry.route
        return None

    def of_object(self, loader: ElfObject, binary: ElfObject) -> Provider:
        """Return an object of the given wheels as the provider of another."""
        return Provider("wheel" if binary.wheel == loader.wheel else "sibling", binary)

    def of_package(
        self,
        loader: ElfObject,
        name: str,
        packages: tuple[package_tables.PackageLibrary, ...],
        reached: package_tables.PackageLibrary | None,
    ) -> Provider:
        """Return the package that has a library: the declared one, else the likely one."""
        known = self.installed.declared[loader.wheel]
        order = [p for p in packages if reached is None or p.folder == reached.folder]
        # of tensorflow and tensorflow-cpu, which have the same library, only one may be required always
        for library in sorted(order, key=lambda p: p.package in known and bool(known[p.package].extra)):
            found = known.get(library.package)
            if found and library.soname not in found.lacks and self._has_wheels(library.package, loader):
                return _declared(found, "release" if library.soname in found.unseen else "")
        lacking = next((known[p.package] for p in order if p.package in known), None)
        major = cuda_major(loader.needed) or self.installed.majors[loader.wheel]
        likely = [p for p in order if p.cuda == major] or order
        package = lacking.package if lacking else likely[-1].package
        others = sorted(package_tables.other_majors(name) & known.keys())
        return Provider(
            "package", package=package, other_major=known[others[0]] if others else None, lacking=lacking
        )

    def _has_wheels(self, package: str, loader: ElfObject) -> bool:
        systems = policy.systems_of(loader, self.installed.musl.get(loader.wheel, ()))
        machine = MACHINES.get(loader.machine, "")
        return all(package_tables.has_wheels(package, machine, musl=libc == "musl") for libc in systems)

    def _library_given(self, loader: ElfObject, provider: Provider, name: str) -> ElfObject | None:
        """Return a declared package's own library when its wheel was given, too."""
        if provider.declared is None:
            return None
        of_package = (
            o
            for o in self.installed.by_name(name, loader)
            if self.installed.projects[o.wheel] == provider.package
        )
        return next(of_package, None)

    def preload_of(self, root: ElfObject, wheel: str, name: str) -> Preload | None:
        """Return the Python file of a wheel that names this library among those it loads, before it imports `root`."""
        for preload in sorted(self.installed.preloads[wheel], key=lambda p: bool(p.uncalled)):
            if not preload.is_late_for(root) and _covers(preload, name, self.installed.declared[wheel]):
                return preload
        return None


def _declared(declaration: Declared, unproved: Unproved = "") -> Provider:
    """Return a declared package as provider of a library, with the reason why it need not bring it."""
    unproved = declaration.requirement.omitted or unproved
    return Provider("package", package=declaration.package, declared=declaration, unproved=unproved)


def _covers(preload: Preload, name: str, declared_packages: Mapping[str, Declared]) -> bool:
    """Return whether a Python file loads a library by itself, by the library's name or its package's."""
    if preload.bare or preload.ops:  # others do not find what a framework opens
        return False
    if preload.opens(name):
        return True
    packages = package_tables.candidates(name)
    if preload.folders and any(package_tables.stems(library.package) & preload.names for library in packages):
        return True
    if preload.fixed or not (preload.pathfinder or preload.everything):
        return False
    words = {
        word
        for library in packages
        if preload.pathfinder or library.package in declared_packages
        for word in (
            sonames.bare(name),
            *package_tables.stems(library.package),
            *library.folder.split("/")[1:-1],
        )
    }
    return bool(words & preload.listed)
