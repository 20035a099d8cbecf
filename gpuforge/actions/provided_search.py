"""Find out what the packages of a wheel's CUDA libraries have and need, in the oldest and newest fitting release."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

import requests
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pypi_simple import DistributionPackage, NoSuchProjectError, PyPISimple

from gpuforge.actions import value_file
from gpuforge.binary.elf import linked_file
from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.provided import METAPACKAGE, Floor, PackageRelease, Provided, Shared, shortest
from gpuforge.cuda.stack import definers
from gpuforge.cuda.suffix import suffix_of, without_suffix
from gpuforge.errors import ActionError, MalformedError, MissingError
from gpuforge.requirements import Release
from gpuforge.wheel import metadata, remote
from gpuforge.wheel.archive import shared_libraries
from gpuforge.wheel.filename import serves
from gpuforge.wheel.package_index import index_url, public, session
from gpuforge.wheel.remote import RemoteArchive


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
        lines = map(Requirement, contents.requires)
        always = (line for line in lines if metadata.holds(line.marker, self._environment))
        requires: set[str] = {canonicalize_name(line.name) for line in always}
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


class Pin(NamedTuple):
    """The version of a package that belongs to a toolkit, and the metapackage's extra that brings it."""

    extra: str
    version: Version


class ToolkitRelease(NamedTuple):
    """A release of the metapackage, with its pins by package."""

    version: Version
    pins: Mapping[str, Pin]


class ToolkitReleases(NamedTuple):
    """The releases for two CUDA majors, oldest first."""

    releases: tuple[ToolkitRelease, ...]

    @classmethod
    def read(cls, index: PackageIndex, cuda: int, environment: Mapping[str, str]) -> ToolkitReleases:
        """Read the releases for a CUDA major and the next one from the index."""
        wheels = [w for w in index.wheels(METAPACKAGE) if Version(w.version).major in {cuda, cuda + 1}]
        with ThreadPoolExecutor(8) as pool:
            contents = list(pool.map(index.contents, wheels))
        return cls(
            tuple(
                ToolkitRelease(Version(wheel.version), _pins(each.requires, environment))
                for wheel, each in zip(wheels, contents, strict=True)
            )
        )

    def pinned(self, package: str, major: int) -> list[Version]:
        """Return the versions of a package that the toolkits of a major pin, in order."""
        pins = (each.pins[package] for each in self._with(package) if each.version.major == major)
        return sorted(pin.version for pin in pins)

    def extra_of(self, package: str) -> str:
        """Return the extra of the newest release that brings a package; "" for none."""
        newest = self.releases[-1].pins.get(package) if self.releases else None
        return newest.extra if newest else ""

    def first_with(self, package: str, version: str) -> tuple[str, str]:
        """Return the first release whose pin is at least `version`, and that toolkit's minor; "" twice for none.

        The release is named by its minor if all releases of that minor will do.
        """
        having = self._with(package)
        older = [n for n, each in enumerate(having) if each.pins[package].version < Version(version)]
        after = having[older[-1] + 1 :] if older else having
        if not after:
            return "", ""
        since = after[0].version
        minor = f"{since.major}.{since.minor}"
        before = having[: len(having) - len(after)]
        partly = any(each.version.release[:2] == since.release[:2] for each in before)
        return (str(since) if partly else minor), minor

    def _with(self, package: str) -> list[ToolkitRelease]:
        return [each for each in self.releases if package in each.pins]


def _pins(requires: Iterable[str], environment: Mapping[str, str]) -> dict[str, Pin]:
    """Return the packages that a metapackage pins, each with its own extra, without packages that only others need."""
    found: dict[str, Pin] = {}
    for line in requires:
        requirement = Requirement(line)
        extra = metadata.extra_of(requirement.marker, environment)
        versions = [s.version.removesuffix(".*") for s in requirement.specifier if s.operator == "=="]
        package = canonicalize_name(requirement.name)
        if extra and extra != "all" and versions:
            plain = without_suffix(package).replace("-", "")
            if package not in found or plain.endswith(extra):
                found[package] = Pin(extra, Version(versions[0]))
    return found


T = TypeVar("T")
_TIMEOUT = 60  # seconds without an answer


class IndexWheel(NamedTuple):
    """One wheel on the index."""

    package: str
    version: str
    file: str
    url: str
    sha256: str  # "" if the index has none


class Contents(NamedTuple):
    """The requirements of a wheel, and its shared libraries: file name -> member."""

    requires: tuple[str, ...]
    libraries: dict[str, str]


class PackageIndex:
    """The package index that pip is configured to use; results are cached in the folder `cache`."""

    def __init__(self, cache: Path, machine: str) -> None:
        self._cache = cache
        self._machine = machine
        self._session = session()
        self.url = index_url()
        self._client = PyPISimple(endpoint=self.url, session=self._session)
        self._pages: dict[str, list[IndexWheel]] = {}

    def wheels(self, package: str) -> list[IndexWheel]:
        """Return one wheel for this machine of each final release that was not yanked, oldest first.

        Raises MissingError when the index cannot be reached; returns an empty list for a package that it does not have.
        """
        if package not in self._pages:
            with self._answering():
                try:
                    page = self._client.get_project_page(canonicalize_name(package), timeout=_TIMEOUT)
                    found = page.packages
                except NoSuchProjectError:
                    found = []
            wheels = {w.version: w for f in found if not f.is_yanked and (w := self._wheel(package, f))}
            self._pages[package] = [wheels[v] for v in sorted(wheels, key=Version)]
        return self._pages[package]

    def contents(self, wheel: IndexWheel) -> Contents:
        """Return a wheel's requirements and libraries; only its directory and its METADATA are read."""
        return self._cached(wheel, "contents", Contents, lambda: self._contents(wheel))

    def library(self, wheel: IndexWheel, soname: str) -> tuple[str, LinkedFile]:
        """Return a library's folder in a wheel, and the libraries and symbols that it needs and defines."""
        member = self.contents(wheel).libraries[soname]
        found = self._cached(wheel, soname, LinkedFile, lambda: self._library(wheel, soname))
        return str(PurePosixPath(member).parent), found

    def _contents(self, wheel: IndexWheel) -> Contents:
        with self._open(wheel) as archive:
            requires = metadata.fields(metadata.of_archive(archive), "Requires-Dist")
            return Contents(tuple(requires), {name: m.name for name, m in shared_libraries(archive).items()})

    def _library(self, wheel: IndexWheel, soname: str) -> LinkedFile:
        print(f"reading {soname} of {wheel.file}", flush=True)
        with tempfile.NamedTemporaryFile(prefix="library-") as file:
            with self._open(wheel) as archive:
                file.writelines(archive.chunks(shared_libraries(archive)[soname]))
            file.flush()
            return _linked(Path(file.name), wheel, soname)

    def _wheel(self, package: str, file: DistributionPackage) -> IndexWheel | None:
        if file.package_type != "wheel":
            return None
        try:
            _, version, _, tags = parse_wheel_filename(file.filename)
        except InvalidWheelFilename:
            return None
        if version.is_prerelease or not any(serves(tag.platform, self._machine) for tag in tags):
            return None
        return IndexWheel(
            package, str(version), file.filename, file.url, (file.digests or {}).get("sha256", "")
        )

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (requests.RequestException, MalformedError) as error:
            raise MissingError.of(
                f"cannot read the package index {public(self.url)}: {type(error).__name__}",
                hint="check the network, the proxy and the CA bundle (REQUESTS_CA_BUNDLE, PIP_INDEX_URL)",
            ) from error

    @contextmanager
    def _open(self, wheel: IndexWheel) -> Iterator[RemoteArchive]:
        with self._answering(), remote.opened(self._session, wheel.file, wheel.url) as archive:
            yield archive

    def _cached(self, wheel: IndexWheel, what: str, kind: type[T], read: Callable[[], T]) -> T:
        """Return what the cache has of a wheel, else what `read` returns, which the cache then has."""
        if not wheel.sha256:
            return read()
        # earlier versions have .json
        file = self._cache / wheel.sha256[:2] / wheel.sha256 / f"{what}.2.json"
        with suppress(OSError, ValueError):  # not there, or half a file, after a crash
            return value_file.read(kind, file)
        found = read()
        value_file.write(found, file)
        return found


def _linked(path: Path, wheel: IndexWheel, soname: str) -> LinkedFile:
    try:
        found = linked_file.read(path)
    except MalformedError as error:
        message = f"{soname} of {wheel.file} is a damaged ELF file: {error.diagnostics[0].message}"
        raise ActionError.of(message) from error
    if found is None:
        raise ActionError.of(f"{soname} of {wheel.file} is not a shared library")
    return found
