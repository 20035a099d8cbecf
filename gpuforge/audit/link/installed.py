"""The installed files of the given wheels and their places; what each wheel requires, imports and loads by itself."""

import posixpath
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from packaging.utils import canonicalize_name

from gpuforge.audit import layout, policy
from gpuforge.audit.layout import left_over_folder
from gpuforge.audit.link import declared, package_tables
from gpuforge.audit.link.declared import Declared
from gpuforge.audit.model import PACKAGES, WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import sonames
from gpuforge.cuda.suffix import without_suffix

_MOST_LINKS = 40  # in a chain, as Linux follows them (MAXSYMLINKS)


class Installed:
    """All given wheels, as if they were installed into one environment."""

    def __init__(self, wheels: tuple[WheelFacts, ...]) -> None:
        """Index the objects by their places, their names and, for Python modules, their projects."""
        given = declared.by_project(wheels)
        self.declared: Mapping[str, Mapping[str, Declared]] = {
            wheel.name: declared.packages(wheel, given) for wheel in wheels
        }
        self.majors = {w.name: cuda_major(n for o in w.objects for n in o.needed) for w in wheels}
        self.preloads = {wheel.name: wheel.preloads for wheel in wheels}
        self.with_code = {wheel.name for wheel in wheels if wheel.preloads or wheel.launchers}
        self.projects = {wheel.name: wheel.project for wheel in wheels}
        self.musl = {w.name: w.platforms for w in wheels if any(p.startswith("musl") for p in w.platforms)}
        self._unpromised = {w.name for w in wheels if not any(p.startswith("manylinux") for p in w.platforms)}
        self.needed = {wheel.name: {name for o in wheel.objects for name in o.needed} for wheel in wheels}
        self.at: dict[str, dict[str, ElfObject]] = {}  # place -> wheel -> its object there
        self.named: dict[str, list[ElfObject]] = {}
        self.modules: dict[str, list[ElfObject]] = {}  # project -> its Python modules
        for found in sorted((o for w in wheels for o in w.linked), key=lambda o: layout.is_moved(o.file)):
            self.at.setdefault(layout.install_path(found.file), {})[found.wheel] = found
            for name in dict.fromkeys((found.soname or found.name, found.name)):
                self.named.setdefault(name, []).append(found)
            if found.is_python_module:
                self.modules.setdefault(self.projects[found.wheel], []).append(found)
        for wheel in wheels:
            for link in wheel.links:
                self._link(wheel, link)
        # place -> wheel -> a file with the name of a library
        self._not_libraries: dict[str, dict[str, str]] = {}
        names = frozenset[str]().union(*self.needed.values())
        for wheel in wheels:
            self._index_others(wheel, names)
        self.file_names = {posixpath.basename(place) for place in (*self.at, *self._not_libraries)}
        self._wheels = {wheel.name: wheel for wheel in wheels}

    def _link(self, wheel: WheelFacts, link: str) -> None:
        """Install the target of a symbolic link, also through other links, under the link's own name."""
        target = link
        for _ in range(_MOST_LINKS):
            target = wheel.links.get(target, target)
        if found := self.at.get(layout.install_path(target)):
            self.at.setdefault(layout.install_path(link), found)

    def _index_others(self, wheel: WheelFacts, names: Collection[str]) -> None:
        """Index the files that have names of libraries but are not; of two for one place, the one installed last.

        Wheels that are only beside the others are skipped: not all of their libraries were read.
        """
        if wheel.neighbour:
            return
        libraries = {o.file for o in wheel.linked}
        for member in wheel.members:
            if member.rpartition("/")[2] not in names or member in libraries:
                continue
            if member in wheel.links or member in wheel.damaged or left_over_folder(member):
                continue
            place = layout.install_path(member)
            if wheel.name not in self.at.get(place, {}) or layout.is_moved(member):
                self.at.get(place, {}).pop(wheel.name, None)
                self._not_libraries.setdefault(place, {})[wheel.name] = member

    def not_library(self, place: str, loader: ElfObject) -> str:
        """Return the file in a place at which the linker stops, because it is not a library; "" without one.

        It skips only libraries for other machines (glibc's elf/dl-load.c, open_verify).
        """
        there = self._not_libraries.get(place, {})
        if loader.wheel in there or not self.at.get(place):
            return there.get(loader.wheel) or next(iter(there.values()), "")
        return ""

    def missing(self, entry: layout.SearchEntry, loader: ElfObject) -> str:
        """Return a folder of a search path that not every environment has; "" if all have it.

        For loose binaries it is unknown what lies beside them.
        """
        wheel = self._wheels[loader.wheel]
        if wheel.form not in PACKAGES:
            return ""
        return next((folder for folder in entry.through if not self._has(folder, wheel)), "")

    def other_python(self, binary: ElfObject, loader: ElfObject) -> str:
        """Return the folder of a Python that one of two objects lies in, and that their wheel need not be for."""
        folders = {layout.folder_of_python(binary.file), layout.folder_of_python(loader.file)}
        if len(folders) == 1:
            return ""
        return next(
            iter(sorted(folders - {"", layout.python_folder(self._wheels[binary.wheel].file_tags)})), ""
        )

    def _has(self, folder: str, wheel: WheelFacts) -> bool:
        if folder in self._folders or folder == layout.python_folder(wheel.file_tags):
            return True
        place = layout.Folder.of(folder)
        return place.among_packages and any(
            canonicalize_name(place.top) in (package, without_suffix(package))
            or any(file.startswith(f"{place.path}/") for file in package_tables.files(package))
            for package in self.declared[wheel.name]
        )

    @cached_property
    def _folders(self) -> frozenset[str]:
        """The folders that the given wheels install files into."""
        found = set(layout.EVERYWHERE)
        for place in (
            layout.install_path(member) for wheel in self._wheels.values() for member in wheel.members
        ):
            folder = posixpath.dirname(place)
            while folder not in found and folder != "/":
                found.add(folder)
                folder = posixpath.dirname(folder)
        return frozenset(found)

    def there(self, place: str, loader: ElfObject) -> ElfObject | None:
        """Return the object that a loader finds in a place; of several wheels, its own or one that it requires.

        The linker may not load it: see `is_for_machine`. musl skips no file (ldso/dynlink.c, load_library).
        """
        musl = self.is_for_musl(loader)
        there = {w: o for w, o in self.at.get(place, {}).items() if musl or not is_skipped(o, loader)}
        required = (o for w, o in there.items() if self.projects[w] in self.declared[loader.wheel])
        return there.get(loader.wheel) or next(required, None) or next(reversed(there.values()), None)

    def by_name(self, name: str, loader: ElfObject) -> list[ElfObject]:
        """Return the libraries of a name, by SONAME or file, that a loader could load if a path led to them."""
        return [o for o in self.named.get(name, ()) if is_for_machine(o, loader)]

    def is_for_musl(self, binary: ElfObject) -> bool:
        """Return whether systems with musl load an object: by the wheel's tags, or else by what it is linked with."""
        if tags := self.musl.get(binary.wheel):
            return "musl" in policy.systems_of(binary, tags)
        return binary.wheel in self._unpromised and policy.c_libraries(binary) == {"musl"}

    def imports(self, wheel: str, project: str) -> bool:
        """Return whether a wheel links with a required package whose import loads its libraries."""
        known = self.declared[wheel].get(project)
        return known is not None and not known.extra and known.loaded_by == project

    def linked(self, wheel: str) -> set[str]:
        """Return the packages that are known to have libraries that objects of a wheel need."""
        return {library.package for name in self.needed[wheel] for library in package_tables.candidates(name)}


def is_for_machine(binary: ElfObject, loader: ElfObject) -> bool:
    """Return whether the linker loads an object for another: it has the same processor, and a known ABI."""
    same = (binary.machine, binary.bits, binary.order) == (loader.machine, loader.bits, loader.order)
    return same and binary.has_known_abi


def is_skipped(binary: ElfObject, loader: ElfObject) -> bool:
    """Return whether glibc goes on to the next folder after a file: one of another word size or for another machine.

    It refuses one of another byte order or ABI before it looks at the machine (elf/dl-load.c, open_verify).
    """
    if binary.bits != loader.bits:
        return True
    return binary.machine != loader.machine and binary.order == loader.order and binary.has_known_abi


def is_of_unpackaged_cuda(needed: Iterable[str]) -> bool:
    """Return whether libraries are of a CUDA release without packages: the SONAME of its libcudart or cuBLAS shows it.

    The SONAMEs of other libraries do not: libcufft.so.10 is of CUDA 10 and of CUDA 11.
    """
    decisive = (name for name in needed if sonames.stem(name) in ("libcudart", "libcublas"))
    return any(sonames.version(name) and not package_tables.candidates(name) for name in decisive)


def cuda_major(needed: Iterable[str]) -> int | None:
    """Return the CUDA major of libraries, from the SONAMEs that only one major has."""
    known = [package_tables.candidates(name) for name in needed]
    majors = Counter(found[0].cuda for found in known if len({library.cuda for library in found}) == 1)
    majors.pop(None, None)
    return majors.most_common(1)[0][0] if majors else None
