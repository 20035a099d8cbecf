"""Read the central directory of a zip file (APPNOTE.TXT 6.3.10, sections 4.3.12 to 4.3.16, ZIP64 included).

`zipfile` does it too, but takes longer over a directory of ten thousand files than inflating many of them does.
"""

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from gpuforge.errors import MalformedError

STORED, DEFLATED = 0, 8
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s4B4HL2L5H2L")
_LONGEST_COMMENT = 1 << 16
_FULL = 0xFFFFFFFF  # the value is in the ZIP64 extra field


class Member(NamedTuple):
    """A file in a zip, as its central directory has it."""

    name: str
    size: int  # bytes, unpacked
    packed: int
    method: int
    crc: int
    header: int  # offset of its local header


def directory(file: int) -> Iterator[Member]:
    """Yield the files of the zip that is open as `file`. Raises MalformedError, and OSError of reading."""
    size = os.fstat(file).st_size
    at, count, length, start = _end(file, size)
    base = at - length - start  # what was put before the archive
    if base < 0:
        raise MalformedError.of("Bad offset for central directory")
    table = os.pread(file, length, start + base)
    if len(table) < length:
        raise MalformedError.of("Truncated central directory")
    position = 0
    for _ in range(count):
        if position + _ENTRY.size > length:
            raise MalformedError.of("Truncated central directory")
        entry = _ENTRY.unpack_from(table, position)
        magic, flags, method, crc, packed, unpacked, name, extra, comment, header = (
            entry[0],
            entry[5],
            entry[6],
            *entry[9:15],
            entry[18],
        )
        if magic != b"PK\x01\x02":
            raise MalformedError.of("Bad magic number for central directory")
        start = position + _ENTRY.size
        text = table[start : start + name]
        if _FULL in {packed, unpacked, header}:
            fields = _extra64(table[start + name : start + name + extra])
            unpacked, packed, header = (
                next(fields) if value == _FULL else value for value in (unpacked, packed, header)
            )
        position = start + name + extra + comment
        if not text.endswith(b"/"):
            decoded = text.decode("utf-8" if flags & 0x800 or text.isascii() else "cp437", "replace")
            # what lies behind the end is said to be missing where it is read; no system call takes every number
            place = min(header + base, size)
            yield Member(decoded.partition("\0")[0], unpacked, packed, method, crc, place)


def _end(file: int, size: int) -> tuple[int, int, int, int]:
    """Return where the directory ends, how many files it has, how long it is and where it says it starts."""
    start = max(0, size - _LONGEST_COMMENT - _END.size)
    tail = os.pread(file, size - start, start)
    at = tail.rfind(b"PK\x05\x06", 0, len(tail) - _END.size + 4)
    if at < 0:
        raise MalformedError.of("File is not a zip file")
    _, _, _, _, count, length, offset, _ = _END.unpack_from(tail, at)
    at += start
    locator = os.pread(file, 20, max(0, at - 20))
    if at >= 20 and locator[:4] == b"PK\x06\x07":
        at -= 20 + _END64.size
        record = os.pread(file, _END64.size, at) if at >= 0 else b""
        if len(record) < _END64.size or record[:4] != b"PK\x06\x06":
            raise MalformedError.of("Bad ZIP64 end of central directory")
        count, length, offset = _END64.unpack(record)[7:]
    return at, count, length, offset


def _extra64(extra: bytes) -> Iterator[int]:
    """Yield the values of the ZIP64 extra field in order; raises MalformedError when there are too few."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        if kind == 1:
            data = extra[position + 4 : position + 4 + length]
            yield from (value for (value,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]))
            break
        position += 4 + length
    raise MalformedError.of("Corrupt ZIP64 extra field")
