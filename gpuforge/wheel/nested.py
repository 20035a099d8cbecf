"""Unpacks wheels inside other archives, such as sdists of several wheels, into files without a name."""

from __future__ import annotations

import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from gpuforge.binary.window import Budget
from gpuforge.errors import MalformedError
from gpuforge.wheel import archive

_BROKEN = (*archive.BROKEN, tarfile.TarError, zlib.error, lzma.LZMAError, RuntimeError)
_CHUNK = 1 << 20  # bytes
_LARGEST_HEADER = 1 << 20  # bytes of names and attributes that precede a member
_BEFORE_MEMBERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip or a tar file. Raises MalformedError."""
    if zipfile.is_zipfile(path):
        return True
    try:
        with _tar(path, Budget(path.stat().st_size)):
            return True
    except (*_BROKEN, OSError):
        return False


def is_wheel(path: Path) -> bool:
    """Return whether a file is a wheel, by its content. Raises MalformedError."""
    if not zipfile.is_zipfile(path):
        return False
    with archive.Archive(path) as found:
        return bool(archive.info_folders(found))


def wheels(path: Path, budget: Budget) -> Iterator[tuple[str, int]]:
    """Yield the wheels in a zip or tar file: the name of each, and the descriptor of a file with its bytes.

    The caller closes the descriptors, which frees the files. Raises MalformedError for a broken archive, TooLargeError
    if the budget is spent, OSError if it cannot be read.
    """
    try:
        if zipfile.is_zipfile(path):
            yield from _in_zip(path, budget)
        else:
            yield from _in_tar(path, budget)
    except _BROKEN as error:
        raise MalformedError.of(f"it cannot be unpacked ({error})") from error


def _in_zip(path: Path, budget: Budget) -> Iterator[tuple[str, int]]:
    with archive.Archive(path, budget) as found:
        for member in found.members:
            if member.name.endswith(".whl"):
                yield member.name, _kept(found.chunks(member), budget)


def _in_tar(path: Path, budget: Budget) -> Iterator[tuple[str, int]]:
    with _tar(path, budget) as tar:
        while member := tar.next():
            tar.members.clear()  # type: ignore[attr-defined]  # it would keep a kilobyte of each
            if member.isreg() and member.name.endswith(".whl") and (content := tar.extractfile(member)):
                yield member.name, _kept(iter(lambda: content.read(_CHUNK), b""), budget)


class _Header(tarfile.TarInfo):
    """The header of a tar member, which must not lead backwards nor take all memory."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size < 0 or (self.size > _LARGEST_HEADER and self.type in _BEFORE_MEMBERS):
            raise tarfile.ReadError(f"a member of type {self.type!r} has {self.size} bytes")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]  # documented in tarfile's source


class _Counted(io.RawIOBase):
    """A stream that is read forwards until the budget is spent."""

    def __init__(self, stream: IO[bytes], budget: Budget) -> None:
        self._stream, self._budget = stream, budget

    def read(self, count: int = -1) -> bytes:
        data = self._stream.read(count)
        self._budget.spend("bytes", len(data))
        return data


@contextmanager
def _tar(path: Path, budget: Budget) -> Iterator[tarfile.TarFile]:
    """Open a tar file of any compression, to be read forwards."""
    with _unpacked(path) as stream:
        # tarfile needs only this part of a file's interface
        counted = cast("IO[bytes]", _Counted(stream, budget))
        with tarfile.open(fileobj=counted, mode="r|", tarinfo=_Header) as tar:
            yield tar


def _unpacked(path: Path) -> IO[bytes]:
    import bz2  # noqa: PLC0415  most audits are of wheels alone
    import gzip  # noqa: PLC0415

    with path.open("rb") as file:
        head = file.read(6)
    if head.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(path))
    if head.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.open(path))
    if head == b"\xfd7zXZ\0":
        return cast("IO[bytes]", lzma.open(path))
    return path.open("rb")


def _kept(chunks: Iterator[bytes], budget: Budget) -> int:
    """Write a wheel to a file without a name, and return its descriptor."""
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryFile() as file:
        for number, chunk in enumerate(chunks):
            budget.spend("entries", 1)
            if not number and not chunk.startswith(b"PK"):
                file.write(chunk[:64])  # its reader reports that it is not a wheel; the rest may be endless
                break
            file.write(chunk)
        file.flush()
        return os.dup(file.fileno())
