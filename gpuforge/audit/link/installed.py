"""What the wheels given install, and where; what each requires, imports and loads by itself."""

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping

from gpuforge.audit import layout
from gpuforge.audit.link import declared, package_tables
from gpuforge.audit.link.declared import Declared
from gpuforge.audit.model import WheelFacts
from gpuforge.binary.facts import ElfObject

_MOST_LINKS = 40  # that lead to one another, as Linux follows them (MAXSYMLINKS)


class Installed:
    """All wheels given, as if they were installed into one environment."""

    def __init__(self, wheels: tuple[WheelFacts, ...]) -> None:
        """Index the objects by their places, their names and, for Python modules, their projects."""
        given = declared.by_project(wheels)
        self.declared: Mapping[str, Mapping[str, Declared]] = {
            wheel.name: declared.packages(wheel, given) for wheel in wheels
        }
        self.majors = {w.name: cuda_major(n for o in w.objects for n in o.needed) for w in wheels}
        self.preloads = {wheel.name: wheel.preloads for wheel in wheels}
        self.projects = {wheel.name: wheel.project for wheel in wheels}
        self.musl = {w.name: w.platforms for w in wheels if any(p.startswith("musl") for p in w.platforms)}
        self.needed = {wheel.name: {name for o in wheel.objects for name in o.needed} for wheel in wheels}
        self.at: dict[str, dict[str, ElfObject]] = {}  # place -> wheel -> what it puts there
        self.named: dict[str, list[ElfObject]] = {}
        self.modules: dict[str, list[ElfObject]] = {}  # project -> its Python modules
        for found in (o for w in wheels for o in w.objects if o.links):
            self.at.setdefault(layout.install_path(found.file), {})[found.wheel] = found
            for name in dict.fromkeys((found.soname or found.name, found.name)):
                self.named.setdefault(name, []).append(found)
            if "python-module" in found.markers:
                self.modules.setdefault(self.projects[found.wheel], []).append(found)
        for wheel in wheels:
            for link in wheel.links:
                self._link(wheel, link)
        self.file_names = {posixpath.basename(place) for place in self.at}

    def _link(self, wheel: WheelFacts, link: str) -> None:
        """Install what a symbolic link leads to, also through others, under the link's own name."""
        target = link
        for _ in range(_MOST_LINKS):
            target = wheel.links.get(target, target)
        if found := self.at.get(layout.install_path(target)):
            self.at.setdefault(layout.install_path(link), found)

    def there(self, place: str, loader: ElfObject) -> ElfObject | None:
        """Return what the linker finds for a loader in a place: of several wheels, in its own or one that it requires.

        It passes over files for other machines (glibc's elf/dl-load.c, open_verify).
        """
        there = {w: o for w, o in self.at.get(place, {}).items() if is_for_machine(o, loader)}
        required = (o for w, o in there.items() if self.projects[w] in self.declared[loader.wheel])
        return there.get(loader.wheel) or next(required, None) or next(reversed(there.values()), None)

    def called(self, name: str, loader: ElfObject) -> list[ElfObject]:
        """Return the libraries of a name, by SONAME or file, that a loader could load if a path led to them."""
        return [o for o in self.named.get(name, ()) if is_for_machine(o, loader)]

    def imports(self, wheel: str, project: str) -> bool:
        """Say whether a wheel links with a package that it requires and that has loaded itself once imported."""
        known = self.declared[wheel].get(project)
        return known is not None and not known.extra and known.loaded_by == project

    def linked(self, wheel: str) -> set[str]:
        """Return the packages that are known to have what objects of a wheel need."""
        return {library.package for name in self.needed[wheel] for library in package_tables.candidates(name)}


def is_for_machine(found: ElfObject, loader: ElfObject) -> bool:
    """Say whether two objects can be in one process: they are for the same processor, and of the same bits."""
    return (found.machine, found.bits) == (loader.machine, loader.bits)


def cuda_major(needed: Iterable[str]) -> int | None:
    """Return the CUDA major that libraries are for, as far as SONAMEs of one major alone tell."""
    known = [package_tables.candidates(name) for name in needed]
    majors = Counter(found[0].cuda for found in known if len({library.cuda for library in found}) == 1)
    majors.pop(None, None)
    return majors.most_common(1)[0][0] if majors else None
