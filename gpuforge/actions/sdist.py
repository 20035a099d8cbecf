"""Source distributions from outside: downloaded, and unpacked within bounds of size, files, memory and time."""

import errno
import lzma
import resource
import shutil
import signal
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Self

import requests
from packaging.utils import canonicalize_name
from pypi_simple import DistributionPackage, NoDigestsError, NoSuchProjectError, PyPISimple
from pypi_simple.errors import DigestMismatchError

from gpuforge import digest, tree
from gpuforge.errors import ActionError, MissingError
from gpuforge.requirements import Release
from gpuforge.wheel.package_index import index_url, public, session

MOST_BYTES, MOST_FILES = 4 * 10**9, 400_000  # of an unpacked sdist; PyPI's default limit is 100 MiB packed
MOST_HEADER_BYTES = 300 * 10**6  # of a tar: 512 for each member, and names and PAX records that are longer
MOST_MEMORY, MOST_SECONDS = 1 << 30, 900  # for all else that a format can hold, such as maps of sparse files
_OF_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)  # whose data `tarfile` reads into memory
_UNSOUND = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    OverflowError,
    MemoryError,
    RuntimeError,  # zipfile's error for a password, and for an unknown method
    OSError,
)
_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO)


def download_sdist(requirement: str, sha256: str | None, folder: Path) -> Path:
    """Download the sdist of `name==version` and return its path.

    The index is pip's own setting (default: PyPI); proxies and CA bundles are those of the environment.
    Raises MissingError without network, ActionError when the file is not there or has another sha256.
    """
    release = Release.of_pin(requirement)
    index = public(index_url())
    try:
        with PyPISimple(endpoint=index_url(), session=session()) as client:
            page = client.get_project_page(canonicalize_name(release.project))
            package = _sdist(page.packages, release, index)
            target = folder / Path(package.filename).name
            print(f"downloading {package.filename}", flush=True)
            client.download_package(
                package, target, verify="sha256" in (package.digests or {}), keep_on_error=False
            )
    except NoSuchProjectError as error:
        raise ActionError.of(
            f"{index} has no project {release.project}", hint="check [package] source"
        ) from error
    except (DigestMismatchError, NoDigestsError) as error:
        raise ActionError.of(
            f"the download of {requirement} arrived broken: {error}", hint="run it again"
        ) from error
    except requests.RequestException as error:
        raise MissingError.of(
            f"cannot reach the package index {index}: {type(error).__name__}",
            hint="check the network, the proxy and the CA bundle (REQUESTS_CA_BUNDLE, PIP_INDEX_URL)",
        ) from error
    found = digest.of_file(target)
    if sha256 and found != sha256:
        raise ActionError.of(
            f"{target.name} has sha256 {found}, but the manifest says {sha256}",
            hint="compare both with the index; correct [package] source when the manifest is the one that is wrong",
        )
    print(f"sha256 {found}", flush=True)
    return target


def _sdist(packages: list[DistributionPackage], release: Release, index: str) -> DistributionPackage:
    versions = sorted({p.version or "" for p in packages if p.package_type == "sdist"})
    for package in packages:
        if package.package_type == "sdist" and package.version == release.version:
            return package
    raise ActionError.of(
        f"{index} has no source distribution of {release}",
        hint=f"it has {', '.join(versions[-8:])}"
        if versions
        else "that project publishes wheels only: use git",
    )


def unpack(archive: Path, output: Path, scratch: Path) -> None:
    """Unpack an sdist (`.tar.gz` or `.zip`) so that its one top folder becomes `output`; raises ActionError."""
    place = scratch / "unpacked"
    try:
        with within(MOST_MEMORY, MOST_SECONDS):
            _unpack(archive, place, _Room())
        (top,) = place.iterdir()
    except _UNSOUND as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            raise
        raise ActionError.of(
            f"{archive.name} is not a sound sdist: {error or type(error).__name__}",
            hint="delete it where it came from and fetch it again; an sdist holds exactly one top folder",
        ) from error
    shutil.move(top, output)


class _Room:
    """The limits of an unpacked sdist: a small archive can contain more than any disk."""

    def __init__(self) -> None:
        self._bytes = self._files = self._header_bytes = 0
        self._folders: set[int] = set()  # hashes of their names, which may be long

    def take(self, name: str, size: int) -> None:
        """Count a member and its folders before it is unpacked; raises ValueError if a limit is exceeded."""
        self._bytes += max(size, 0)
        self._files += 1
        folder = name.rstrip("/")
        while self._files <= MOST_FILES and (folder := folder.rpartition("/")[0]):
            if (known := hash(folder)) in self._folders:
                break
            self._folders.add(known)
            self._files += 1
        if self._bytes > MOST_BYTES or self._files > MOST_FILES:
            msg = f"unpacked it has more than {MOST_BYTES // 10**9} GB or {MOST_FILES:,} files and folders"
            raise ValueError(msg)

    def headers(self) -> type[tarfile.TarInfo]:
        """Return the class for a tar's headers, which refuses headers that need too much memory or time.

        `tarfile` reads names and PAX records into memory without a limit, and moves back in the file for a negative
        size (https://nvd.nist.gov/vuln/detail/CVE-2025-8194).
        """
        room = self

        class Header(tarfile.TarInfo):
            @classmethod
            def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
                header = super().frombuf(buf, encoding, errors)
                is_data = header.type in tarfile.SUPPORTED_TYPES and header.type not in _OF_NAMES
                room._header_bytes += 512 if is_data else max(header.size, 512)
                if header.size < 0 or room._header_bytes > MOST_HEADER_BYTES:
                    msg = f"a header says {header.size} bytes, or all have more than {MOST_HEADER_BYTES // 10**6} MB"
                    raise ValueError(msg)
                return header

        return Header


def _unpack(archive: Path, place: Path, room: _Room) -> None:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as bundle:
            for info in bundle.infolist():
                room.take(info.filename, info.file_size)
            bundle.extractall(place)  # noqa: S202  zipfile strips absolute and parent paths itself
    else:
        with tarfile.open(archive, tarinfo=room.headers()) as tar:
            _extract(tar, place, room)


def _extract(bundle: tarfile.TarFile, place: Path, room: _Room) -> None:
    """Extract an archive whose members stay inside `place`, with no special files; otherwise raises tarfile.TarError.

    Links are made when all files are there, so nothing is written through them. `tarfile`'s own filters use
    os.path.realpath, which hostile archives have circumvented (https://nvd.nist.gov/vuln/detail/CVE-2025-4517).
    """
    place.mkdir(parents=True)
    links: dict[str, str] = {}
    for member in bundle:
        room.take(member.name, member.size)
        name = _name_of(member.name, member)
        target = place / name
        links.pop(name, None)
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        if member.issym():
            links[name] = member.linkname
        elif member.islnk():
            _copy(place / _name_of(member.linkname, member), target, room)
        elif member.isfile():
            _write(bundle, member, target)
        else:
            msg = f"{member.name} is a special file"
            raise tarfile.TarError(msg)
    for name, linked in links.items():
        if (place / name).is_dir():
            msg = f"{name[:100]} is a link and a folder"
            raise tarfile.TarError(msg)
        (place / name).symlink_to(linked)
    for name in links:
        if tree.leaves(place, name):
            msg = f"{name} leads outside the archive"
            raise tarfile.TarError(msg)


def _name_of(text: str, member: tarfile.TarInfo) -> str:
    """Return the path of a member; raises tarfile.TarError if it is outside."""
    parts = [part for part in text.split("/") if part not in {"", "."}]
    if ".." in parts:
        msg = f"{member.name} leads outside the archive"
        raise tarfile.TarError(msg)
    return "/".join(parts)


def _write(bundle: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = bundle.extractfile(member)
    assert content is not None  # noqa: S101  it is a regular file
    with content, target.open("xb") as stream:
        shutil.copyfileobj(content, stream, 1 << 20)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)


def _copy(file: Path, target: Path, room: _Room) -> None:
    """Write a copy of a hard link's target, which must be an earlier file."""
    room.take("", file.stat().st_size)
    shutil.copy(file, target)


@contextmanager
def within(memory: int, seconds: int) -> Iterator[None]:
    """Limit the work in the context to so many more bytes of data, and so many seconds of processor time.

    Raises ValueError when either is not enough. Only the main thread can do so.
    """

    def late(number: int, frame: FrameType | None) -> None:
        msg = f"it takes more than {seconds} seconds of processor time"
        raise ValueError(msg)

    before = signal.signal(signal.SIGXCPU, late)
    old = {what: resource.getrlimit(what) for what in (resource.RLIMIT_DATA, resource.RLIMIT_CPU)}
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_DATA, _data() + memory)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + seconds)
    try:
        yield
    except MemoryError:
        msg = f"it takes more than {memory >> 20} MiB of memory"
        raise ValueError(msg) from None
    finally:
        for what, limits in old.items():
            resource.setrlimit(what, limits)
        signal.signal(signal.SIGXCPU, before)


def _data() -> int:
    """Return the bytes of data that this process has now: https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html"""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    return pages * resource.getpagesize()


def _lower(what: int, limit: int) -> None:
    """Set a limit, as far as the existing one allows."""
    soft, hardest = resource.getrlimit(what)
    resource.setrlimit(what, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hardest))
