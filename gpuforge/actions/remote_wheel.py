"""Wheels on a package index, read in parts: METADATA and single libraries; results are cached by the wheel's sha256."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

import requests
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pypi_simple import DistributionPackage, NoSuchProjectError, PyPISimple

from gpuforge.actions import value_file
from gpuforge.binary.elf import linked_file
from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.errors import ActionError, MalformedError, MissingError
from gpuforge.wheel import metadata, remote
from gpuforge.wheel.archive import shared_libraries
from gpuforge.wheel.filename import serves
from gpuforge.wheel.package_index import index_url, public, session
from gpuforge.wheel.remote import RemoteArchive

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
