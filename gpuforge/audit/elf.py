"""Read what an ELF file says of itself: dynamic section, symbol versions, segments, notes, sections.

Formats: System V gABI chapters 4 and 5, LSB core "Symbol Versioning", and glibc's elf.h.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from gpuforge.audit.model import ElfObject, MalformedError, Section, VersionNeed
from gpuforge.audit.source import MissedError, Window

MAGIC = b"\x7fELF"
EM_CUDA = 190

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_GNU_STACK = 1, 2, 3, 4, 0x6474E551
DT_NULL, DT_NEEDED, DT_STRTAB, DT_STRSZ, DT_SONAME, DT_RPATH, DT_RUNPATH = 0, 1, 5, 10, 14, 15, 29
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
SHT_NOBITS = 8
_LONGEST_DYNSTR = 64 << 20  # bytes of .dynstr that are searched for a compiler's traces
_SLACK = 1 << 16  # bytes kept around what is known to be wanted


@dataclass(frozen=True, slots=True)
class _Segment:
    type: int
    flags: int
    offset: int
    address: int
    size: int  # bytes in the file


@dataclass(frozen=True, slots=True)
class _Header:
    bits: int
    order: str  # struct's byte order: "<" or ">"
    type: int
    machine: int
    section_offset: int
    section_size: int
    section_count: int
    section_names: int
    segments: tuple[_Segment, ...]


def read(window: Window, *, wheel: str = "", file: str = "") -> ElfObject:
    """Read the ELF file in `window`, all but its device code.

    Raises MalformedError when it contradicts itself, MissedError (of `source`) when a range was not kept.
    """
    header = _header(window)
    dynamic, strings = _dynamic(window, header)
    values = dict(reversed(dynamic))  # of a repeated tag the first counts
    sections = _sections(window, header)

    def text(tag: int) -> str | None:
        return strings.text(values[tag]) if tag in values else None

    return ElfObject(
        wheel=wheel,
        file=file,
        size=window.size,
        bits=header.bits,
        machine=header.machine,
        type=header.type,
        dynamic=dynamic,
        soname=text(DT_SONAME) or "",
        needed=tuple(strings.text(value) for tag, value in dynamic if tag == DT_NEEDED),
        rpath=text(DT_RPATH),
        runpath=text(DT_RUNPATH),
        interpreter=_interpreter(window, header),
        version_needs=tuple(_version_needs(window, header, values, strings)),
        version_definitions=tuple(_version_definitions(window, header, values, strings)),
        stack=next((s.flags for s in header.segments if s.type == PT_GNU_STACK), None),
        build_id=_build_id(window, header),
        comment=_comment(window, sections),
        sections=sections,
        markers=_markers(strings),
    )


def outline(window: Window) -> list[tuple[int, int]]:
    """Return the ranges (start, stop) that `read` will want, as far as what was kept tells.

    Raises MalformedError, and MissedError while the program headers are missing. Once the dynamic section is
    there, what it points to is in the list, too.
    """
    header = _header(window)
    small = (PT_DYNAMIC, PT_INTERP, PT_NOTE)
    wanted = [(s.offset, s.offset + s.size) for s in header.segments if s.type in small]
    wanted.append((window.size - _SLACK, window.size))  # the sections' names and .comment, mostly
    if header.section_count:
        end = header.section_offset + header.section_count * header.section_size
        wanted.append((header.section_offset - _SLACK, end))
    with contextlib.suppress(MissedError):
        values = dict(reversed(_entries(window, header)))
        if DT_STRTAB in values and DT_STRSZ in values:
            start = _file_offset(header, values[DT_STRTAB])
            wanted.append((start, start + min(values[DT_STRSZ], _LONGEST_DYNSTR)))
        tables = (_file_offset(header, values[tag]) for tag in (DT_VERNEED, DT_VERDEF) if tag in values)
        wanted += [(start, start + _SLACK) for start in tables]
    return [
        (max(0, start), min(stop, window.size)) for start, stop in wanted if start < min(stop, window.size)
    ]


def _header(window: Window) -> _Header:
    ident = window.read(0, 16)
    if ident[:4] != MAGIC or ident[4] not in (1, 2) or ident[5] not in (1, 2):
        raise MalformedError.of("its first 16 bytes are not an ELF header")
    bits, order = 32 * ident[4], "<>"[ident[5] - 1]
    layout = struct.Struct(order + ("HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH"))
    (kind, machine, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, shstrndx) = layout.unpack(
        window.read(16, layout.size)
    )
    segments = _segments(window, bits, order, phoff, phentsize, phnum)
    if shoff and shnum == 0:  # more than 65279 sections: the count is in the first header
        first = _section_header(window, bits, order, shoff, shentsize)
        shnum, shstrndx = first[3], first[4] if shstrndx == 0xFFFF else shstrndx
    if shnum * shentsize > window.size:
        raise MalformedError.of(f"{shnum} section headers do not fit into it")
    return _Header(bits, order, kind, machine, shoff, shentsize, shnum if shoff else 0, shstrndx, segments)


def _segments(
    window: Window, bits: int, order: str, offset: int, size: int, count: int
) -> tuple[_Segment, ...]:
    if not count:
        return ()
    layout = struct.Struct(order + ("8I" if bits == 32 else "IIQQQQQQ"))
    if size < layout.size:
        raise MalformedError.of(f"program headers of {size} bytes")
    table = window.read(offset, size * count)
    found = []
    for index in range(count):
        fields = layout.unpack_from(table, index * size)
        if bits == 32:
            kind, start, address, _, length, _, flags, _ = fields
        else:
            kind, flags, start, address, _, length, _, _ = fields
        found.append(_Segment(kind, flags, start, address, length))
    return tuple(found)


def _section_header(
    window: Window, bits: int, order: str, offset: int, size: int
) -> tuple[int, int, int, int, int]:
    layout = struct.Struct(order + ("10I" if bits == 32 else "IIQQQQIIQQ"))
    if size < layout.size:
        raise MalformedError.of(f"section headers of {size} bytes")
    name, kind, _, _, start, length, link, *_ = layout.unpack(window.read(offset, layout.size))
    return name, kind, start, length, link


def _sections(window: Window, header: _Header) -> tuple[Section, ...]:
    if not header.section_count:
        return ()
    raw = [
        _section_header(
            window,
            header.bits,
            header.order,
            header.section_offset + i * header.section_size,
            header.section_size,
        )
        for i in range(header.section_count)
    ]
    if header.section_names >= len(raw):
        raise MalformedError.of("its section names lie in a section that is not there")
    _, _, names, length, _ = raw[header.section_names]
    table = _Strings(window, names, length)
    return tuple(
        Section(table.text(name) if length else "", start, 0 if kind == SHT_NOBITS else size)
        for name, kind, start, size, _ in raw
    )


class _Strings:
    """A string table of the file."""

    def __init__(self, window: Window, offset: int, size: int) -> None:
        self._window, self._offset, self._size = window, offset, size

    def text(self, index: int) -> str:
        if index >= self._size:
            raise MalformedError.of(f"string {index} of a table of {self._size} bytes")
        return self._window.text(self._offset + index, self._offset + self._size)

    def has(self, word: bytes) -> bool:
        if self._size > _LONGEST_DYNSTR:
            return False
        return word in self._window.read(self._offset, self._size)


def _file_offset(header: _Header, address: int) -> int:
    for segment in header.segments:
        if segment.type == PT_LOAD and segment.address <= address < segment.address + segment.size:
            return address - segment.address + segment.offset
    raise MalformedError.of(f"address {address:#x} lies in no loaded segment")


def _dynamic(window: Window, header: _Header) -> tuple[tuple[tuple[int, int], ...], _Strings]:
    entries = _entries(window, header)
    if not entries:
        return (), _Strings(window, 0, 0)
    values = dict(reversed(entries))
    if DT_STRTAB not in values or DT_STRSZ not in values:
        raise MalformedError.of("its dynamic section names no string table")
    return entries, _Strings(window, _file_offset(header, values[DT_STRTAB]), values[DT_STRSZ])


def _entries(window: Window, header: _Header) -> tuple[tuple[int, int], ...]:
    segment = next((s for s in header.segments if s.type == PT_DYNAMIC), None)
    if segment is None:
        return ()
    layout = struct.Struct(header.order + ("iI" if header.bits == 32 else "qQ"))
    table = window.read(segment.offset, segment.size - segment.size % layout.size)
    entries: list[tuple[int, int]] = []
    for tag, value in layout.iter_unpack(table):
        if tag == DT_NULL:
            break
        entries.append((tag, value))
    return tuple(entries)


def _interpreter(window: Window, header: _Header) -> str:
    segment = next((s for s in header.segments if s.type == PT_INTERP), None)
    return window.text(segment.offset, segment.offset + segment.size) if segment else ""


def _version_needs(
    window: Window, header: _Header, values: dict[int, int], strings: _Strings
) -> Iterator[VersionNeed]:
    if DT_VERNEED not in values:
        return
    need = _file_offset(header, values[DT_VERNEED])
    left = window.size // 16
    for _ in range(min(values.get(DT_VERNEEDNUM, 0), window.size // 16)):
        _, count, file, aux, following = struct.unpack(header.order + "HHIII", window.read(need, 16))
        names, position = [], need + aux
        left -= count
        if left < 0:
            raise MalformedError.of("it wants more symbol versions than fit into it")
        for _ in range(count):
            _, _, _, name, step = struct.unpack(header.order + "IHHII", window.read(position, 16))
            names.append(strings.text(name))
            if not step:
                break
            position += step
        yield VersionNeed(strings.text(file), tuple(names))
        if not following:
            break
        need += following


def _version_definitions(
    window: Window, header: _Header, values: dict[int, int], strings: _Strings
) -> Iterator[str]:
    if DT_VERDEF not in values:
        return
    position = _file_offset(header, values[DT_VERDEF])
    for _ in range(min(values.get(DT_VERDEFNUM, 0), window.size // 20)):
        _, flags, _, count, _, aux, following = struct.unpack(
            header.order + "HHHHIII", window.read(position, 20)
        )
        if count and not flags & 1:  # the first one (VER_FLG_BASE) is the file's own name
            (name,) = struct.unpack(header.order + "I", window.read(position + aux, 4))
            yield strings.text(name)
        if not following:
            break
        position += following


def _build_id(window: Window, header: _Header) -> str:
    for segment in header.segments:
        if segment.type != PT_NOTE or segment.size > 1 << 16:
            continue
        notes = window.read(segment.offset, segment.size)
        position = 0
        while position + 12 <= len(notes):
            name, size, kind = struct.unpack_from(header.order + "III", notes, position)
            start = position + 12 + (name + 3) // 4 * 4
            if kind == 3 and notes[position + 12 : position + 16] == b"GNU\0":
                return notes[start : start + size].hex()
            position = start + (size + 3) // 4 * 4
    return ""


def _comment(window: Window, sections: tuple[Section, ...]) -> tuple[str, ...]:
    section = next((s for s in sections if s.name == ".comment"), None)
    if section is None:
        return ()
    data = window.read(section.offset, min(section.size, 1 << 16))
    lines = (line.decode("utf-8", "backslashreplace") for line in data.split(b"\0") if line)
    return tuple(dict.fromkeys(lines))


def _markers(strings: _Strings) -> frozenset[str]:
    """Tell by symbol names what made an object, and what it is for.

    nvc++ writes no .comment, but its objects define or want `__pgi_*` (seen in SDK 21.11 to 22.1). A Python
    module defines `PyInit_*`.
    """
    words = {"nvhpc": b"\0__pgi_", "python-module": b"\0PyInit_"}
    return frozenset(marker for marker, word in words.items() if strings.has(word))
