"""Stream the members of a zip file: opened once, read with pread, inflated with isal, nothing on disk."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from isal import isal_zlib

from gpuforge.audit.model import MalformedError

_Broken: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls it an instance
_PACKED_CHUNK = 1 << 18
_CHUNK = 1 << 21  # at most this much of a member is in hand at once


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a zip, as its central directory has it."""

    name: str
    size: int  # bytes, unpacked
    packed: int
    method: int
    crc: int
    header: int  # offset of its local header


class Archive:
    """A zip file, open for reading its members as streams."""

    def __init__(self, path: Path) -> None:
        """Open it; raises MalformedError for what is no zip, or a broken one, OSError when it cannot be read."""
        try:
            with zipfile.ZipFile(path) as directory:
                infos = directory.infolist()
        except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError) as error:
            raise MalformedError.of(_broken(path, error)) from error
        self.path = path
        self.members = tuple(
            Member(i.filename, i.file_size, i.compress_size, i.compress_type, i.CRC, i.header_offset)
            for i in infos
            if not i.is_dir()
        )
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

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
            raise MalformedError.of(f"{member.name}: its bytes do not match the checksum in the archive")

    def head(self, member: Member, count: int) -> bytes:
        """Return the first `count` bytes of a member, without inflating more than they need."""
        got = self._read(self._start(member), min(member.packed, 4 * count + 512))
        if member.method == zipfile.ZIP_STORED:
            return got[:count]
        if member.method != zipfile.ZIP_DEFLATED:
            return b""
        try:
            return bytes(isal_zlib.decompressobj(wbits=-15).decompress(got, count))
        except _Broken as error:
            raise MalformedError.of(f"{member.name}: cannot be inflated ({error})") from error

    def data(self, member: Member) -> bytes:
        """Return all of a member's bytes; for small ones."""
        return b"".join(self.chunks(member))

    def _unpacked(self, member: Member) -> Iterator[bytes]:
        start, end = self._start(member), 0
        end = start + member.packed
        if member.method == zipfile.ZIP_STORED:
            for position in range(start, end, _CHUNK):
                yield self._read(position, min(_CHUNK, end - position))
            return
        if member.method != zipfile.ZIP_DEFLATED:
            raise MalformedError.of(
                f"{member.name}: packed with method {member.method}, which wheels do not use"
            )
        inflater = isal_zlib.decompressobj(wbits=-15)
        try:
            for position in range(start, end, _PACKED_CHUNK):
                pending = self._read(position, min(_PACKED_CHUNK, end - position))
                while pending and not inflater.eof:
                    if chunk := inflater.decompress(pending, _CHUNK):
                        yield chunk
                    pending = inflater.unconsumed_tail
            if rest := inflater.flush():
                yield rest
        except _Broken as error:
            raise MalformedError.of(f"{member.name}: cannot be inflated ({error})") from error

    def _start(self, member: Member) -> int:
        header = self._read(member.header, 30)
        if header[:4] != b"PK\x03\x04":
            raise MalformedError.of(f"{member.name}: the archive has no file where its directory says")
        name, extra = struct.unpack_from("<HH", header, 26)
        return member.header + 30 + int(name) + int(extra)

    def _read(self, offset: int, count: int) -> bytes:
        data = os.pread(self._file, count, offset)
        if len(data) < count:
            raise MalformedError.of("the archive ends in the middle of a file: it was cut off")
        return data


def _broken(path: Path, error: Exception) -> str:
    with path.open("rb") as stream:
        head = stream.read(4)
    if head == b"PK\x03\x04":
        return (
            f"it begins like a zip file but its directory cannot be read ({error}): it was cut off or damaged"
        )
    return "it is not a wheel: not even a zip file"
