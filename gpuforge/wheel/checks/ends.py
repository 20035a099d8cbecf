"""Checks the records at the end of an archive: one directory and one end record, without other bytes.

Format: APPNOTE.TXT, 4.3.14 to 4.3.16.
"""

import struct
import zipfile
from collections.abc import Iterator

from gpuforge.wheel.archive import Archive
from gpuforge.wheel.checks.names import raw_name
from gpuforge.wheel.checks.refusal import Refusal

_ENTRY = 46  # bytes of a directory's entry, without its name, extra fields and comment
_END, _END64, _LOCATOR = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_END_SIZE, _END64_SIZE, _LOCATOR_SIZE = 22, 56, 20
_COMMENT = 1 << 16  # bytes


def check(archive: Archive) -> Iterator[Refusal]:
    """Yield the first problem behind the last entry of the directory, from which the others follow."""
    directory = archive.directory
    start = directory.start + sum(map(_length, directory.entries))
    last = _length(directory.entries[-1]) if directory.entries else 0
    if last and not _whole(archive.read_at(start - last, _ENTRY), last):
        yield Refusal("end record", case="entry")
        return
    tail = archive.read_at(
        start, min(directory.size - start, _END_SIZE + _END64_SIZE + _LOCATOR_SIZE + _COMMENT)
    )
    place = 0
    if tail.startswith(_END64):
        if problem := _zip64(tail, start, len(directory.entries)):
            yield problem
            if problem.kind == "ZIP64 end":
                return
        place = _END64_SIZE + _LOCATOR_SIZE
    if not tail.startswith(_END, place) or len(tail) < place + _END_SIZE:
        yield Refusal("data between", facts={"place": start + place}, case="directory")
        return
    here, count, _, _, comment = struct.unpack_from("<4xHHIIH", tail, place + 4)
    stop = start + place + _END_SIZE + comment
    if here != count or (not place and count != len(directory.entries)):
        yield Refusal("end record", facts={"ended": count, "listed": len(directory.entries)}, case="count")
    elif stop < directory.size:
        yield Refusal("data behind", facts={"size": directory.size - stop, "place": stop})
    elif stop > directory.size:
        yield Refusal("end record", facts={"size": comment}, case="comment")
    elif any(1 <= byte <= 8 for byte in tail[place + _END_SIZE :]):
        yield Refusal("archive comment")


def _length(info: zipfile.ZipInfo) -> int:
    name = info.orig_filename
    named = len(name) if name.isascii() else len(raw_name(info))
    return _ENTRY + named + len(info.extra) + len(info.comment)


def _whole(entry: bytes, length: int) -> bool:
    """Return whether an entry has the length that it declares: `zipfile` cuts the last one to the directory's size."""
    lengths: tuple[int, int, int] = struct.unpack_from("<HHH", entry, 28)
    return _ENTRY + sum(lengths) == length


def _zip64(tail: bytes, start: int, members: int) -> Refusal | None:
    """Return the problem of the ZIP64 end record and its locator."""
    if len(tail) < _END64_SIZE + _LOCATOR_SIZE or not tail.startswith(_LOCATOR, _END64_SIZE):
        return Refusal("ZIP64 end", case="locator")
    length, here, count, _, _ = struct.unpack_from("<Q12xQQQQ", tail, 4)
    if length != _END64_SIZE - 12:
        return Refusal("ZIP64 end", case="data")
    if not here == count == members:
        return Refusal("ZIP64 end", facts={"ended": count, "listed": members}, case="count")
    (led,) = struct.unpack_from("<Q", tail, _END64_SIZE + 8)
    if led != start:
        return Refusal("ZIP64 locator", facts={"led": led, "place": start})
    return None
