"""Find out what the packages of a wheel's CUDA libraries have and need, in the oldest and newest fitting release."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.cache_folder import cache_folder
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.provided import CudaNeeds, Floor, PackageRelease, Provided, Shared, shortest
from gpuforge.cuda.stack import definers
from gpuforge.cuda.suffix import suffix_of
from gpuforge.cuda.version import major_of
from gpuforge.errors import ActionError
from gpuforge.plan.requests.links import FetchProvided
from gpuforge.requirements import Release
from gpuforge.steps import entry, value_file
from gpuforge.steps.remote_wheel import IndexWheel, PackageIndex
from gpuforge.steps.toolkit_releases import ToolkitReleases
from gpuforge.wheel import metadata

_FOLDER = "linkage"  # in the cache: facts of wheels, by their sha256


def main(request: FetchProvided) -> None:
    """Write `output`, what the packages have `Provided` of the `CudaNeeds` in the file `links`."""
    needs = value_file.read(CudaNeeds, request.links)
    found = Provided()
    if needs.symbols:
        index = PackageIndex(cache_folder(os.environ) / _FOLDER, request.machine)
        own = map(Requirement, needs.requires)
        found = Search(index, major_of(request.cuda), own, request.machine).run(needs.symbols)
    else:
        print("the wheel needs no library of a CUDA package")
    for floor in found.floors:
        print(f"{floor.package} {floor.version}")
    value_file.write(found, request.output)


@dataclass
class _Package:
    """One package whose libraries are used: the symbols of each, and the releases that need it without requiring it."""

    symbols: dict[str, set[str]] = field(default_factory=dict)
    forgotten_by: dict[Release, None] = field(default_factory=dict)
    direct: bool = False
    floor: Floor | None = None
    newest: IndexWheel | None = None

    def add(self, soname: str, symbols: Iterable[str]) -> bool:
        """Add symbols of a library; return whether any of them is new."""
        before = self.symbols.setdefault(soname, set()) if soname in self.symbols else None
        if before is not None and before >= set(symbols):
            return False
        self.symbols.setdefault(soname, set()).update(symbols)
        return True


class Search:
    """Follows a wheel's needs from package to package, in the oldest and in the newest releases allowed."""

    def __init__(self, index: PackageIndex, cuda: int, own: Iterable[Requirement], machine: str) -> None:
        self._index = index
        self._cuda = cuda
        self._own = list(own)
        self._environment = metadata.marker_environment(machine)
        self._packages: dict[str, _Package] = {}
        self._releases: dict[Release, PackageRelease] = {}
        self._missing: dict[tuple[str, Release], None] = {}
        self._toolkits = ToolkitReleases.read(index, cuda, self._environment)

    def run(self, needed: Mapping[str, Mapping[str, Iterable[str]]]) -> Provided:
        """Return everything that was found; raises ActionError for a package or symbol that no release has."""
        for package, symbols in needed.items():
            here = self._packages.setdefault(package, _Package(direct=True))
            for soname, names in symbols.items():
                here.add(soname, names)
        queue = list(needed)
        while queue:
            package = queue.pop(0)
            queue += [each for each in self._look_at(package) if each not in queue]
        floors = tuple(p.floor for _, p in sorted(self._packages.items()) if p.floor)
        return Provided(
            floors, tuple(self._releases[k] for k in sorted(self._releases)), tuple(self._missing)
        )

    def _look_at(self, package: str) -> Iterator[str]:
        """Find a package's floor and newest release; yield the packages that these need."""
        here = self._packages[package]
        wheels = self._allowed(package)
        here.newest = wheels[-1]
        here.floor = self._floor(package, here, wheels)
        oldest = next(wheel for wheel in wheels if wheel.version == here.floor.version)
        for wheel, role in ((oldest, "oldest"), (here.newest, "newest")):
            yield from self._follow(wheel, role, list(here.symbols))

    def _allowed(self, package: str) -> list[IndexWheel]:
        """Return the releases of a package that the project's own requirements and the CUDA major allow."""
        wheels = self._index.wheels(package)
        pinned = [
            version
            for major in (self._cuda, self._cuda + 1)
            for version in self._toolkits.pinned(package, major)[:1]
        ]
        if not suffix_of(package):
            if pinned and self._toolkits.pinned(package, self._cuda):
                wheels = [w for w in wheels if Version(w.version) >= pinned[0]]
            if len(pinned) > 1:
                wheels = [w for w in wheels if Version(w.version) < pinned[1]]
        own = SpecifierSet()
        for requirement in self._own:
            if canonicalize_name(requirement.name) == package:
                own &= requirement.specifier
        allowed = [wheel for wheel in wheels if own.contains(wheel.version)]
        if not allowed:
            raise ActionError.of(
                f"the package index has no {package}{own} for this machine, and the wheel needs its libraries",
                hint="correct the project's dependencies, or PIP_INDEX_URL",
            )
        return allowed

    def _floor(self, package: str, here: _Package, wheels: list[IndexWheel]) -> Floor:
        """Return the oldest release that has all wanted symbols which the newest release has."""
        used = {
            soname: sorted(names & self._linked(wheels[-1], soname).defined)
            for soname, names in here.symbols.items()
        }
        for soname, names in here.symbols.items() if here.direct else ():
            _refuse_lost(wheels[-1], soname, names - set(used[soname]))
        low, high = 0, len(wheels) - 1
        while low < high:
            middle = (low + high) // 2 if low else 0  # mostly the oldest has them all
            if self._has(wheels[middle], used):
                high = middle
            else:
                low = middle + 1
        chosen = wheels[low].version
        since, cuda = self._toolkits.first_with(package, chosen)
        return Floor(
            package,
            chosen,
            shortest(chosen, [w.version for w in wheels]),
            cuda,
            since,
            self._toolkits.extra_of(package),
            {soname: len(names) for soname, names in used.items()},
            tuple(wheel.version for wheel in wheels[:low]),
            tuple(here.forgotten_by),
            here.direct,
        )

    def _has(self, wheel: IndexWheel, used: Mapping[str, list[str]]) -> bool:
        present = self._index.contents(wheel).libraries
        return all(
            soname in present and set(names) <= self._linked(wheel, soname).defined
            for soname, names in used.items()
        )

    def _linked(self, wheel: IndexWheel, soname: str) -> LinkedFile:
        if soname not in self._index.contents(wheel).libraries:
            raise ActionError.of(
                f"the wheel needs {soname}, but the newest allowed {wheel.package}, {wheel.version}, does not have it",
                hint=f"require an older {wheel.package} in the project's dependencies, or build with a newer toolkit",
            )
        return self._index.library(wheel, soname)[1]

    def _follow(self, wheel: IndexWheel, role: str, sonames: list[str]) -> Iterator[str]:
        """Record a release with all of its libraries that are loaded; yield further packages to look at."""
        contents = self._index.contents(wheel)
        requires = _projects(contents.requires, self._environment)
        release = Release(wheel.package, wheel.version)
        loaded: dict[str, Shared] = {}
        queue = list(sonames)
        while queue:
            soname = queue.pop(0)
            if soname in loaded:
                continue
            folder, found = self._index.library(wheel, soname)
            loaded[soname] = Shared(soname, folder, found.needed, found.search_path)
            for needed in found.needed:
                if needed in contents.libraries:
                    queue.append(needed)
                elif libraries.is_toolkit(needed):
                    yield from self._further(release, needed, requires, found.undefined)
        known = self._releases.get(release)
        role = "oldest and newest" if known and known.role != role else role
        self._releases[release] = PackageRelease(
            wheel.package, wheel.version, role, wheel.file, wheel.sha256, tuple(sorted(requires)),
            tuple(loaded.values()),
        )  # fmt: skip

    def _further(
        self, by: Release, soname: str, requires: set[str], symbols: frozenset[str]
    ) -> Iterator[str]:
        """Yield the package of a library that another package's library needs."""
        fitting = [entry.package for entry in libraries.by_soname(soname) if entry.cuda == self._cuda]
        package = next((p for p in fitting if p in requires), fitting[0] if fitting else "")
        if not package:
            self._missing[soname, by] = None
            return
        is_new = package not in self._packages
        here = self._packages.setdefault(package, _Package())
        forgotten = package not in requires
        if forgotten and not here.direct:
            here.forgotten_by[by] = None
        # symbols of this one's that are not the other's are left out when its exports are read
        if here.add(soname, symbols) or is_new:
            yield package


def _refuse_lost(wheel: IndexWheel, soname: str, names: Iterable[str]) -> None:
    """Raise ActionError for functions that belong to this library by their names, but are not defined in it."""
    stem = f"{sonames.stem(soname)}.so"
    lost = sorted(name for name in names if definers(name)[:1] == (stem,))
    if lost:
        raise ActionError.of(
            f"the wheel calls {', '.join(lost[:3])}, but {soname} of the newest allowed {wheel.package}, "
            f"{wheel.version}, does not define {'it' if len(lost) == 1 else 'them'}",
            hint=f"require an older {wheel.package} in the project's dependencies, or change the call",
        )


def _projects(requires: Iterable[str], environment: Mapping[str, str]) -> set[str]:
    """Return the projects that are always required in an environment."""
    found = (Requirement(line) for line in requires)
    return {canonicalize_name(r.name) for r in found if metadata.holds(r.marker, environment)}


if __name__ == "__main__":
    entry.run(FetchProvided, main)
