"""Stream the members of a zip file: opened once, read with pread, inflated with isal, nothing on disk."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from isal import igzip_lib, isal_zlib

from gpuforge.errors import CorruptError, MalformedError
from gpuforge.wheel.directory import DEFLATED, STORED, Member, directory

if TYPE_CHECKING:  # a large wheel is being read while this is loaded
    from pathlib import Path

__all__ = ["Archive", "Member"]

_Broken: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls it an instance
_PACKED_CHUNK = 1 << 20
_EXTRA = 64  # bytes that a local header may have beyond its name, in most wheels
_CHUNK = 1 << 21  # at most this much of a member is in hand at once


class Archive:
    """A zip file, open for reading its members as streams."""

    def __init__(self, path: Path | str) -> None:
        """Open it; raises MalformedError for what is no zip, or a broken one, OSError when it cannot be read."""
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.members = tuple(directory(self._file))
        except MalformedError as error:
            os.close(self._file)
            raise MalformedError.of(_broken(path, error)) from error
        except OSError:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def chunks(self, member: Member) -> Iterator[bytes]:
        """Yield a member's bytes in order; raises MalformedError when it is broken or ends early."""
        crc = size = 0
        if member.method == DEFLATED:
            inflater = _inflater()
            for chunk in self._inflated(member, inflater):
                size += len(chunk)
                yield chunk
            crc = inflater.crc
        elif member.method == STORED:
            for chunk in self._stored(member):
                crc = isal_zlib.crc32(chunk, crc)
                size += len(chunk)
                yield chunk
        else:
            raise MalformedError.of(
                f"{member.name}: packed with method {member.method}, which wheels do not use"
            )
        if size != member.size or crc != member.crc:
            raise _mismatch(member)

    def head(self, member: Member, count: int) -> bytes:
        """Return the first `count` bytes of a member, without inflating more than they need."""
        _, got = self._begin(member, min(member.packed, 4 * count + 512))
        if member.method == STORED:
            return got[:count]
        if member.method != DEFLATED:
            return b""
        try:
            return bytes(isal_zlib.decompressobj(wbits=-15).decompress(got, count))
        except _Broken as error:
            raise CorruptError.of(f"{member.name}: cannot be inflated ({error})") from error

    def data(self, member: Member) -> bytes:
        """Return all of a member's bytes; for small ones. Raises as `chunks` does."""
        if member.method != DEFLATED or member.packed > _CHUNK:
            return b"".join(self.chunks(member))
        _, packed = self._begin(member, member.packed)
        inflater = _inflater()
        try:
            data = inflater.decompress(packed, member.size + 1)
        except _Broken as error:
            raise CorruptError.of(f"{member.name}: cannot be inflated ({error})") from error
        if len(data) != member.size or inflater.crc != member.crc:
            raise _mismatch(member)
        return data

    def _stored(self, member: Member) -> Iterator[bytes]:
        start, first = self._begin(member, min(_CHUNK, member.packed))
        end = start + member.packed
        yield first
        for position in range(start + _CHUNK, end, _CHUNK):
            yield self._read(member, position, min(_CHUNK, end - position))

    def _inflated(self, member: Member, inflater: igzip_lib.IgzipDecompressor) -> Iterator[bytes]:
        start, packed = self._begin(member, min(_PACKED_CHUNK, member.packed))
        end = start + member.packed
        try:
            for position in range(start, end, _PACKED_CHUNK):
                count = min(_PACKED_CHUNK, end - position)
                pending = packed if position == start else self._read(member, position, count)
                while not inflater.eof:
                    if chunk := inflater.decompress(pending, _CHUNK):
                        yield chunk
                    if inflater.needs_input:
                        break
                    pending = b""
        except _Broken as error:
            raise CorruptError.of(f"{member.name}: cannot be inflated ({error})") from error

    def _begin(self, member: Member, count: int) -> tuple[int, bytes]:
        """Return where a member's data starts, and its first `count` bytes: for most members in one read."""
        data = os.pread(self._file, 30 + len(member.name) + _EXTRA + count, member.header)
        if data[:4] != b"PK\x03\x04" or len(data) < 30:
            raise CorruptError.of(f"{member.name}: the archive has no file where its directory says")
        name, extra = struct.unpack_from("<HH", data, 26)
        skip = 30 + int(name) + int(extra)
        start = member.header + skip
        first = data[skip : skip + count]
        return start, first if len(first) == count else self._read(member, start, count)

    def _read(self, member: Member, offset: int, count: int) -> bytes:
        data = os.pread(self._file, count, offset)
        if len(data) < count:
            raise CorruptError.of(f"{member.name}: the archive ends in the middle of it: it was cut off")
        return data


def _inflater() -> igzip_lib.IgzipDecompressor:
    """Return an inflater of a raw stream; it takes the sum, as of a gzip file's, on the way."""
    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP_NO_HDR)


def _mismatch(member: Member) -> CorruptError:
    return CorruptError.of(f"{member.name}: its bytes do not match the checksum in the archive")


def _broken(path: Path | str, error: Exception) -> str:
    with open(path, "rb") as stream:  # noqa: PTH123  it may be a string
        head = stream.read(4)
    if head == b"PK\x03\x04":
        return (
            f"it begins like a zip file but its directory cannot be read ({error}): it was cut off or damaged"
        )
    return "it is not a wheel: not even a zip file"
