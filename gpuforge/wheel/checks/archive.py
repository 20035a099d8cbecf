"""Checks an archive for what indexes and installers refuse: names, local headers, its end, bytes of no member.

Installers that unpack while they download read the local header before each member, others the central directory: an
archive in which the two differ installs differently. Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT,
4.3.7, 4.3.14 to 4.3.16 and 4.5. PyPI accepts ZIP64 fields of the lengths below: warehouse/utils/zipfiles.py.
"""

import contextlib
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import PurePosixPath
from typing import NamedTuple

from gpuforge.wheel.archive import Archive
from gpuforge.wheel.checks import Refusal

# https://github.com/pypi/warehouse/blob/main/warehouse/forklift/legacy.py: COMPRESSION_RATIO_…
_UNPACKED, _RATIO = 64 << 20, 50
_BLOCK = 512  # bytes of a tar file's first header
_CHECKSUM, _CHECKSUM_AT = re.compile(rb"[ 0-7]{0,7}[0-7][ \0]*"), (148, 156)  # of that header


def check(archive: Archive) -> Iterator[Refusal]:
    """Yield the refusals of indexes and installers for the archive itself; one finding for each cause."""
    entries = archive.directory.entries
    records = [*check_local_headers(archive), *check_end(archive)]
    if _is_tar(archive):
        records = [Refusal("zip and tar"), *(r for r in records if r.kind != "data before")]
    yield from check_names(entries)
    yield from records
    unpacked = sum(info.file_size for info in entries)
    if unpacked > _UNPACKED and unpacked > _RATIO * archive.directory.size:
        yield Refusal("ratio", facts={"size": unpacked, "ratio": unpacked // archive.directory.size})


def _is_tar(archive: Archive) -> bool:
    """Return whether it also begins as a tar file, which is not compressed."""
    block = archive.read_at(0, _BLOCK)
    if len(block) < _BLOCK or not _CHECKSUM.fullmatch(block, *_CHECKSUM_AT):
        return False
    import tarfile  # noqa: PLC0415  for an archive in thousands

    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


# in names, one per line: names of printable ASCII without these have no problem
_SIGNS = ("\\", ":", "//", "\n/", "\n\n", "/./", "/../", "/.\n", "/..\n", "\n./", "\n../", "\n.\n", "\n..\n")
_DRIVE = re.compile(r"[A-Za-z]:")
_ENCRYPTED, _DESCRIPTOR, _UTF8 = 1, 8, 0x800  # flags
_PLAIN = {0, stat.S_IFREG, stat.S_IFDIR}
# mode's type and special bits, method, encrypted
_USUAL = {(kind >> 9, method, 0) for kind in _PLAIN for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)}
_SPECIAL = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


def check_names(entries: Sequence[zipfile.ZipInfo]) -> Iterator[Refusal]:
    """Yield the problems of each member, and of pairs of them."""
    names = [info.orig_filename for info in entries]
    if odd := _is_odd(names):
        for info in entries:
            yield from _name(info)
    if (
        not {(info.external_attr >> 25, info.compress_type, info.flag_bits & _ENCRYPTED) for info in entries}
        <= _USUAL
    ):
        for info in entries:
            yield from _special(info)
    for info in (info for info in entries if info.extra):
        name = raw_name(info)
        if (other := second_name(info.extra, name)) not in {b"", name}:
            yield Refusal(
                "other name", info.orig_filename, {"name": other.decode("utf-8", "backslashreplace")}
            )
    for info in (info for info in entries if info.file_size and info.orig_filename.endswith("/")):
        yield Refusal("folder with data", info.orig_filename, {"size": info.file_size})
    yield from (Refusal("member comment", info.orig_filename) for info in entries if info.comment)
    resolved = (f"{PurePosixPath(name)}{'/' * name.endswith('/')}" for name in names)  # by the file system
    yield from _clashes([*resolved] if odd else names)


def _is_odd(names: Sequence[str]) -> bool:
    text = "\n".join(["", *names, ""])
    printable = text.isascii() and text.replace("\n", "").isprintable() and text.count("\n") == len(names) + 1
    return not printable or any(sign in text for sign in _SIGNS)


def _special(info: zipfile.ZipInfo) -> Iterator[Refusal]:
    """Yield the kinds of a member that is not a plain or deflated file."""
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in _PLAIN:
        yield Refusal("link", info.orig_filename)
    elif mode & _SPECIAL and not info.filename.endswith("/"):
        yield Refusal("special mode", info.orig_filename, {"mode": stat.filemode(mode)})
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        yield Refusal("method", info.orig_filename, {"method": info.compress_type})
    if info.flag_bits & _ENCRYPTED:
        yield Refusal("encrypted", info.orig_filename)


def _name(info: zipfile.ZipInfo) -> Iterator[Refusal]:
    """Yield the first problem of a name."""
    name = info.orig_filename
    kind = ""
    if any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in name):
        kind = "control characters"
    elif not name.isascii() and not info.flag_bits & _UTF8:
        kind = "encoding"
    elif not name.isascii() and any(unicodedata.category(letter).startswith("C") for letter in name):
        kind = "unprintable"
    elif _leads_out(name):
        kind = "path"
    elif "\\" in name or _DRIVE.match(name):
        kind = "path on Windows"
    elif ".." in PurePosixPath(name).parts:
        kind = "roundabout path"
    if kind:
        yield Refusal(kind, name)


def raw_name(info: zipfile.ZipInfo) -> bytes:
    """Return a member's name as the bytes of the directory."""
    name = info.orig_filename
    return name.encode() if info.flag_bits & _UTF8 or name.isascii() else name.encode("cp437")


def _leads_out(name: str) -> bool:
    depth = 0
    for part in PurePosixPath(name).parts:
        depth += -1 if part == ".." else 1
        if part.startswith("/") or depth < 0:
            return True
    return not depth


def _clashes(names: Sequence[str]) -> Iterator[Refusal]:
    files = [name for name in names if not name.endswith("/")]
    unique = set(files)
    if len(unique) != len(files):
        yield from (Refusal("duplicate", name) for name, count in Counter(files).items() if count > 1)
    ordered = sorted({name.replace("/", "\0") for name in names})  # a folder is followed by its content
    for name, following in pairwise(ordered):
        if following.startswith(f"{name}\0") and not name.endswith("\0"):
            yield Refusal("file and folder", name.replace("\0", "/"))
    if len({_folded(name) for name in unique}) != len(unique):
        seen: dict[str, str] = {}
        for name in sorted(unique):
            other = seen.setdefault(_folded(name), name)
            if other != name:
                yield Refusal("case", name, {"name": other})


def _folded(name: str) -> str:
    """Return a value that is the same for names of one file on macOS or Windows."""
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).lower()


_ZIP64, _UNICODE_PATH = 0x0001, 0x7075
_ZIP64_LENGTHS = (0, 8, 16, 24, 28)
_IN_ZIP64 = 0xFFFFFFFF


def problem_of_extra(extra: bytes, method: int, packed: int, size: int) -> Refusal | None:
    """Return the problem of the extra fields of a header with these sizes, without the member."""
    seen = set()
    try:
        for kind, value in _fields(extra):
            if kind in seen:
                refused = "doubled field" if kind in {_ZIP64, _UNICODE_PATH} else "repeated field"
                return Refusal(refused, facts={"field": kind})
            seen.add(kind)
            if kind == _ZIP64 and not _sound(value, method, packed, size):
                return Refusal("ZIP64 field", facts={"size": len(value)})
            if kind == _UNICODE_PATH:
                value[5:].decode()
                if any(byte < 0x20 or byte == 0x7F for byte in value[5:]):
                    return Refusal("other name's characters", facts={"name": value[5:].decode()})
    except UnicodeDecodeError:
        return Refusal("doubled field", case="name")
    except ValueError:
        return Refusal("doubled field", case="cut")
    return None


def second_name(extra: bytes, name: bytes) -> bytes:
    """Return the name in the field for a UTF-8 name, if the field is about this name; else b""."""
    with contextlib.suppress(ValueError):
        for kind, value in _fields(extra):
            if kind == _UNICODE_PATH and value[1:5] == struct.pack("<I", zlib.crc32(name)):
                return value[5:]
    return b""


def sizes_in(extra: bytes, packed: int, size: int) -> tuple[int, int]:
    """Return the packed and the unpacked size, from the ZIP64 field if there is one."""
    for kind, value in _fields(extra):
        if kind == _ZIP64 and len(value) >= 8:
            first = struct.unpack_from("<Q", value)[0]
            size = first if size == _IN_ZIP64 else size
            packed = struct.unpack_from("<Q", value, 8)[0] if len(value) >= 16 else first
    return packed, size


def _sound(value: bytes, method: int, packed: int, size: int) -> bool:
    if len(value) == 0:
        return _IN_ZIP64 not in {packed, size}
    if len(value) == 8:
        return method == 0
    return len(value) in _ZIP64_LENGTHS


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start < len(extra):
        if len(extra) < start + 4:
            raise ValueError("extra fields that end in the middle of one")
        kind, length = struct.unpack_from("<HH", extra, start)
        start += 4 + length
        if start > len(extra):
            raise ValueError("extra fields that end in the middle of one")
        yield kind, extra[start - length : start]


MAGIC = b"PK\x03\x04"
_FORM = struct.Struct("<4s2xHH4xIIIHH")
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


def check_local_headers(archive: Archive) -> Iterator[Refusal]:
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
        local = _local_header(archive, info.header_offset)
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
        found = _local_header(archive, info.header_offset).name
        if found != name and found in names:
            yield Refusal("no local header", info.orig_filename, {"name": shown(found)})


def _is_header(data: bytes) -> bool:
    return len(data) >= _FORM.size and data.startswith(MAGIC)


def _local_header(archive: Archive, offset: int) -> Local:
    _, flags, method, crc, packed, size, long, extra = _FORM.unpack(archive.read_at(offset, _FORM.size))
    archive.budget.spend("names", long + extra)  # many entries may lead to one header
    tail = archive.read_at(offset + _FORM.size, long + extra)
    return Local(flags, method, crc, packed, size, tail[:long], tail[long:])


def _differences(local: Local, info: zipfile.ZipInfo, name: bytes) -> Iterator[Refusal]:
    """Yield the first difference that installers meet, as one cause has one finding."""
    member = info.orig_filename
    if problem := problem_of_extra(local.extra, local.method, local.packed, local.size):
        yield problem._replace(member=member)
        return
    second = second_name(local.extra, local.name)
    # reported once, for the directory
    if second not in {b"", name, second_name(info.extra, name)}:
        yield Refusal("other local name", member, {"name": shown(second)})
        return
    packed, size = sizes_in(local.extra, local.packed, local.size)
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
        yield Refusal(
            "hidden member", facts={"name": shown(_local_header(archive, start).name)} if whole else {}
        )
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


_ENTRY = 46  # bytes of a directory's entry, without its name, extra fields and comment
_END, _END64, _LOCATOR = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_END_SIZE, _END64_SIZE, _LOCATOR_SIZE = 22, 56, 20
_COMMENT = 1 << 16  # bytes


def check_end(archive: Archive) -> Iterator[Refusal]:
    """Yield the first problem behind the last entry of the directory, from which the others follow."""
    directory = archive.directory
    start = directory.start + sum(map(_entry_length, directory.entries))
    last = _entry_length(directory.entries[-1]) if directory.entries else 0
    if last and not _is_whole(archive.read_at(start - last, _ENTRY), last):
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


def _entry_length(info: zipfile.ZipInfo) -> int:
    name = info.orig_filename
    named = len(name) if name.isascii() else len(raw_name(info))
    return _ENTRY + named + len(info.extra) + len(info.comment)


def _is_whole(entry: bytes, length: int) -> bool:
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
