"""Compares the local header before each member with the central directory, and finds bytes of no member.

Installers that unpack while they download read the local headers, others the directory: an archive in which the two
differ installs differently. Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3.7 and 4.5.
"""

import struct
import zipfile
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from gpuforge.wheel.archive import Archive
from gpuforge.wheel.checks import extra_fields
from gpuforge.wheel.checks.names import raw_name
from gpuforge.wheel.checks.refusal import Refusal

MAGIC = b"PK\x03\x04"
_FORM = struct.Struct("<4s2xHH4xIIIHH")
_ENCRYPTED, _DESCRIPTOR, _UTF8 = 1, 8, 0x800
_HARMLESS = _UTF8 | 6  # flags; bits 1 and 2 are the compression level of a member
_DESCRIPTOR_SIZES = (12, 16, 20, 24)  # bytes: without and with a signature, of 32 and of 64 bits


class Local(NamedTuple):
    """A local header, with the sizes of its ZIP64 field if it has one."""

    flags: int
    method: int
    crc: int
    packed: int
    size: int
    name: bytes
    extra: bytes

    @property
    def length(self) -> int:
        """Return its length in bytes."""
        return _FORM.size + len(self.name) + len(self.extra)


def check(archive: Archive) -> Iterator[Refusal]:
    """Yield the problems of the local headers and of the gaps between members, in the order of the file."""
    directory = archive.directory
    entries = sorted(directory.entries, key=attrgetter("header_offset"))
    named = [(info, raw_name(info)) for info in entries]
    if _is_plain(archive, named):
        return
    if lost := list(_lost(archive, named)):
        yield from lost  # other problems would be about the same members
        return
    position = 0
    for info, name in named:
        local = _local(archive, info.header_offset)
        if info.header_offset != position:
            yield from _between(archive, position, info.header_offset, info.orig_filename)
        position = max(position, info.header_offset + local.length + info.compress_size)
        yield from _differences(local, info, name)
        if local.flags & _DESCRIPTOR:
            position += _descriptor(archive, position)
    if position != directory.start:
        yield from _between(archive, position, directory.start, "")


def _is_plain(archive: Archive, named: Sequence[tuple[zipfile.ZipInfo, bytes]]) -> bool:
    """Return whether nothing differs, as in nearly every wheel: the members follow each other without extra fields."""
    position = 0
    spans = ((info.header_offset, _FORM.size + len(name)) for info, name in named)
    for (info, name), head in zip(named, archive.starts(spans), strict=True):
        flags = info.flag_bits
        if (
            head[_FORM.size :] != name
            or info.header_offset != position
            or flags & ~_HARMLESS
            or _FORM.unpack_from(head)
            != (MAGIC, flags, info.compress_type, info.CRC, info.compress_size, info.file_size, len(name), 0)
        ):
            return False
        position += len(head) + info.compress_size
    return position == archive.directory.start


def _lost(archive: Archive, named: Sequence[tuple[zipfile.ZipInfo, bytes]]) -> Iterator[Refusal]:
    """Yield the members with a wrong offset in the directory: nothing or another member begins there."""
    names = {name for _, name in named}
    for info, name in named:
        if not _is_header(archive.read_at(info.header_offset, _FORM.size)):
            yield Refusal("no local header", info.orig_filename)
            continue
        found = _local(archive, info.header_offset).name
        if found != name and found in names:
            yield Refusal("no local header", info.orig_filename, {"name": shown(found)})


def _is_header(data: bytes) -> bool:
    return len(data) >= _FORM.size and data.startswith(MAGIC)


def _local(archive: Archive, offset: int) -> Local:
    _, flags, method, crc, packed, size, long, extra = _FORM.unpack(archive.read_at(offset, _FORM.size))
    archive.budget.spend("names", long + extra)  # many entries may lead to one header
    tail = archive.read_at(offset + _FORM.size, long + extra)
    return Local(flags, method, crc, packed, size, tail[:long], tail[long:])


def _differences(local: Local, info: zipfile.ZipInfo, name: bytes) -> Iterator[Refusal]:
    """Yield the first difference that installers meet, as one cause has one finding."""
    member = info.orig_filename
    if problem := extra_fields.problem(local.extra, local.method, local.packed, local.size):
        yield problem._replace(member=member)
        return
    second = extra_fields.second_name(local.extra, local.name)
    if second not in {
        b"",
        name,
        extra_fields.second_name(info.extra, name),
    }:  # reported once, for the directory
        yield Refusal("other local name", member, {"name": shown(second)})
        return
    packed, size = extra_fields.sizes(local.extra, local.packed, local.size)
    if local.name != name:
        yield Refusal("local name", member, {"name": shown(local.name)})
    elif local.flags & _DESCRIPTOR:
        yield Refusal("data descriptor", member)
    elif (packed, size) != (info.compress_size, info.file_size):
        listed = {"listed_packed": info.compress_size, "listed_size": info.file_size}
        yield Refusal("local sizes", member, {"packed": packed, "size": size, **listed})
    elif local.crc != info.CRC:
        yield Refusal("local checksum", member, {"crc": local.crc, "listed": info.CRC})
    elif local.method != info.compress_type:
        yield Refusal("local method", member, {"method": local.method, "listed": info.compress_type})
    elif (local.flags ^ info.flag_bits) & (_ENCRYPTED | _DESCRIPTOR):
        yield Refusal("local flags", member)


def _between(archive: Archive, start: int, stop: int, member: str) -> Iterator[Refusal]:
    """Yield the refusal for bytes before a member (or before the directory), or for members that overlap."""
    if stop < start:
        yield Refusal("overlap", member, {"size": start - stop})
        return
    if archive.read_at(start, 4) == MAGIC:
        whole = _is_header(archive.read_at(start, _FORM.size))
        yield Refusal("hidden member", facts={"name": shown(_local(archive, start).name)} if whole else {})
    else:
        yield Refusal(
            "data between" if start else "data before", facts={"size": stop - start, "place": start}
        )


def _descriptor(archive: Archive, position: int) -> int:
    """Return the size of a data descriptor: it is followed by a record of the archive."""
    for size in _DESCRIPTOR_SIZES:
        if archive.read_at(position + size, 2) == b"PK":
            return size
    return 0


def shown(name: bytes) -> str:
    """Return the bytes of a name as text."""
    return name.decode("utf-8", "backslashreplace")
