"""Unpacks wheels inside other archives, such as sdists of several wheels, into a file without a name.

All wheels of a call are in one such file, as a process may open few files at once, and an archive of some kilobytes
can hold thousands of wheels.
"""

import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple, cast

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


class Span(NamedTuple):
    """A part of an open file: its descriptor, and bytes."""

    file: int
    start: int
    size: int


def wheels(path: Path, budget: Budget, target: IO[bytes]) -> Iterator[tuple[str, Span]]:
    """Yield the wheels in a zip or tar file: the name of each, and where it was added to the end of `target`.

    Raises MalformedError for a broken archive, TooLargeError if the budget is spent, OSError if it cannot be read.
    """
    try:
        for name, chunks in (_in_zip if zipfile.is_zipfile(path) else _in_tar)(path, budget):
            budget.spend("wheels", 1)
            yield name, _kept(chunks, budget, target)
    except _BROKEN as error:
        raise MalformedError.of(f"it cannot be unpacked ({error})") from error


@contextmanager
def as_file(span: Span) -> Iterator[Path]:
    """Copy a wheel into a file of its own, which has a path during the `with` only."""
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryFile() as file:
        start, left = span.start, span.size
        while left > 0 and (sent := os.sendfile(file.fileno(), span.file, start, left)):
            start, left = start + sent, left - sent
        yield Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")


def _in_zip(path: Path, budget: Budget) -> Iterator[tuple[str, Iterator[bytes]]]:
    with archive.Archive(path, budget) as found:
        for member in found.members:
            if member.name.endswith(".whl"):
                yield member.name, found.chunks(member)


def _in_tar(path: Path, budget: Budget) -> Iterator[tuple[str, Iterator[bytes]]]:
    with _tar(path, budget) as tar:
        while member := tar.next():
            tar.members.clear()  # type: ignore[attr-defined]  # it would keep a kilobyte of each
            if member.isreg() and member.name.endswith(".whl") and (content := tar.extractfile(member)):
                yield member.name, iter(partial(content.read, _CHUNK), b"")


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


def _kept(chunks: Iterator[bytes], budget: Budget, target: IO[bytes]) -> Span:
    """Write a wheel to the end of a file."""
    start = target.tell()
    for number, chunk in enumerate(chunks):
        budget.spend("entries", 1)
        if not number and not chunk.startswith(b"PK"):
            target.write(chunk[:64])  # its reader reports that it is not a wheel; the rest may be endless
            break
        target.write(chunk)
    target.flush()
    return Span(target.fileno(), start, target.tell() - start)
