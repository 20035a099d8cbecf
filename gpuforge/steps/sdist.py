"""Unpack an sdist from outside, within bounds of size, files, memory and processor time."""

from __future__ import annotations

import errno
import lzma
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Self

from gpuforge import tree
from gpuforge.errors import ActionError
from gpuforge.steps.within import within

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
