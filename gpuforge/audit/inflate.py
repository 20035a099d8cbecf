"""Stream the members of a zip file: opened once, read with pread, inflated with isal, nothing on disk."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from isal import igzip_lib, isal_zlib

from gpuforge.audit.model import MalformedError
from gpuforge.audit.zipdir import DEFLATED, STORED, Member, directory

__all__ = ["Archive", "Member"]

_Broken: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls it an instance
_PACKED_CHUNK = 1 << 18
_EXTRA = 64  # bytes that a local header may have beyond its name, in most wheels
_CHUNK = 1 << 21  # at most this much of a member is in hand at once


class Archive:
    """A zip file, open for reading its members as streams."""

    def __init__(self, path: Path) -> None:
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
        for chunk in self._unpacked(member):
            crc = isal_zlib.crc32(chunk, crc)
            size += len(chunk)
            yield chunk
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
            raise MalformedError.of(f"{member.name}: cannot be inflated ({error})") from error

    def data(self, member: Member) -> bytes:
        """Return all of a member's bytes; for small ones. Raises as `chunks` does."""
        if member.method != DEFLATED or member.packed > _CHUNK:
            return b"".join(self.chunks(member))
        _, packed = self._begin(member, member.packed)
        try:
            data = isal_zlib.decompressobj(wbits=-15).decompress(packed, member.size + 1)
        except _Broken as error:
            raise MalformedError.of(f"{member.name}: cannot be inflated ({error})") from error
        if len(data) != member.size or isal_zlib.crc32(data) != member.crc:
            raise _mismatch(member)
        return bytes(data)

    def _unpacked(self, member: Member) -> Iterator[bytes]:
        chunk_size = _CHUNK if member.method == STORED else _PACKED_CHUNK
        start, packed = self._begin(member, min(chunk_size, member.packed))
        end = start + member.packed
        if member.method == STORED:
            yield packed
            for position in range(start + chunk_size, end, chunk_size):
                yield self._read(position, min(chunk_size, end - position))
            return
        if member.method != DEFLATED:
            raise MalformedError.of(
                f"{member.name}: packed with method {member.method}, which wheels do not use"
            )
        inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)  # faster than isal_zlib's
        try:
            for position in range(start, end, chunk_size):
                pending = (
                    packed if position == start else self._read(position, min(chunk_size, end - position))
                )
                while not inflater.eof:
                    if chunk := inflater.decompress(pending, _CHUNK):
                        yield chunk
                    if inflater.needs_input:
                        break
                    pending = b""
        except _Broken as error:
            raise MalformedError.of(f"{member.name}: cannot be inflated ({error})") from error

    def _begin(self, member: Member, count: int) -> tuple[int, bytes]:
        """Return where a member's data starts, and its first `count` bytes: for most members in one read."""
        data = os.pread(self._file, 30 + len(member.name) + _EXTRA + count, member.header)
        if data[:4] != b"PK\x03\x04" or len(data) < 30:
            raise MalformedError.of(f"{member.name}: the archive has no file where its directory says")
        name, extra = struct.unpack_from("<HH", data, 26)
        skip = 30 + int(name) + int(extra)
        start = member.header + skip
        first = data[skip : skip + count]
        return start, first if len(first) == count else self._read(start, count)

    def _read(self, offset: int, count: int) -> bytes:
        data = os.pread(self._file, count, offset)
        if len(data) < count:
            raise MalformedError.of("the archive ends in the middle of a file: it was cut off")
        return data


def _mismatch(member: Member) -> MalformedError:
    return MalformedError.of(f"{member.name}: its bytes do not match the checksum in the archive")


def _broken(path: Path, error: Exception) -> str:
    with path.open("rb") as stream:
        head = stream.read(4)
    if head == b"PK\x03\x04":
        return (
            f"it begins like a zip file but its directory cannot be read ({error}): it was cut off or damaged"
        )
    return "it is not a wheel: not even a zip file"
