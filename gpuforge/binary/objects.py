"""Read ELF files of every kind, relocatable ones too: sections, symbols, comments, debug info, what is NEEDED.

Formats: System V gABI, chapters 4 and 5 (https://gabi.xinuos.com); compressed sections are unpacked.
"""

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from gpuforge.binary import packed
from gpuforge.errors import MalformedError

MAGIC = b"\x7fELF"
RELOCATABLE, PROGRAM, SHARED = 1, 2, 3  # e_type
SHT_SYMTAB, SHT_NOBITS, SHT_DYNSYM = 2, 8, 11
SHF_EXECINSTR = 4
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ = 1, 5, 10
_EXTENDED = 0xFFFF  # the value is in the first section header
_STT_FILE = 4
_STB_LOCAL, _STB_WEAK = 0, 2
_NAMES = 16  # times a file's size: what its names may add up to, as tables share the ends of names
_UNPACKED = 64  # times a file's size: what its compressed sections may unpack to, each twice
_DEBUG = (".debug_info", ".debug_str", ".debug_line_str", ".zdebug_info", ".zdebug_str")


class Section(NamedTuple):
    """A section header."""

    name: str
    type: int
    flags: int
    offset: int
    size: int  # bytes in the file; 0 for what has none (.bss)
    link: int
    entry: int  # bytes of an entry, where it is a table


class Symbol(NamedTuple):
    """An entry of a symbol table."""

    name: str
    defined: bool
    weak: bool = False
    local: bool = False
    file: bool = False  # the name of the source, or of what the compiler gave to the assembler


class Segment(NamedTuple):
    """A program header."""

    type: int
    offset: int
    address: int
    size: int


class _Layout(NamedTuple):
    """The tables of the ELF header: where they are, how long an entry is, how many there are."""

    segments: tuple[int, int, int]
    sections: tuple[int, int, int]
    names: int


class ObjectFile:
    """An ELF file, of which each part is read when it is asked for; each may raise MalformedError."""

    def __init__(self, data: bytes) -> None:
        """Read the header of the file `data`."""
        if len(data) < 52 or data[:4] != MAGIC or data[4] not in (1, 2) or data[5] not in (1, 2):
            raise MalformedError.of("its first bytes are not an ELF header")
        self.data = data
        self.bits, self._order = 32 * data[4], "<>"[data[5] - 1]
        fields = "HHIIIIIHHHHHH" if self.bits == 32 else "HHIQQQIHHHHHH"
        self._left = _NAMES * len(data) + (1 << 16)  # characters of names
        self._room = _UNPACKED * len(data) + (1 << 20)  # bytes of compressed sections
        (self.type, self.machine, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, names) = (
            self._unpack(fields, 16)
        )
        self._layout = _Layout((phoff, phentsize, phnum), (shoff, shentsize, shnum), names)

    def content(self, section: Section) -> bytes:
        """Return the bytes of a section, unpacked."""
        stored = self._slice(section.offset, section.size)
        if section not in self._compressed:
            return stored
        if section.flags & packed.SHF_COMPRESSED:
            found = packed.section(stored, self.bits, self._order, self._room)
        else:
            found = packed.zdebug(stored, self._room)
        self._room -= len(found)
        return found

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Every section; nothing where the headers are gone."""
        offset, size, count = self._layout.sections
        if not offset:
            return ()
        fields = "IIIIIIIIII" if self.bits == 32 else "IIQQQQIIQQ"
        names = self._layout.names
        if not count or names == _EXTENDED:
            first = self._unpack(fields, offset)
            count, names = count or first[5], first[6] if names == _EXTENDED else names
        rows = self._table(fields, offset, size, count)
        if not rows:
            return ()
        if names >= len(rows):
            raise MalformedError.of("its section names lie in a section that is not there")
        table = self._slice(rows[names][4], rows[names][5]) if names else b""
        return tuple(
            Section(self._name(table, row[0]), row[1], row[2], row[4], _stored(row), row[6], row[9])
            for row in rows
        )

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """Every named symbol of every table; all dynamic names where the section headers are gone."""
        found: list[Symbol] = []
        tables = [s for s in self.sections if s.type in (SHT_SYMTAB, SHT_DYNSYM)]
        if sum(s.size for s in tables) > len(self.data):
            raise MalformedError.of("its symbol tables are larger than the file")
        for section in tables:
            if section.link >= len(self.sections):
                raise MalformedError.of(f"the names of {section.name} lie in a section that is not there")
            strings = self.content(self.sections[section.link])
            found.extend(self._symbols(self.content(section), strings))
        if not any(s.type == SHT_DYNSYM for s in tables):
            found.extend(Symbol(name, defined=False) for name in self._dynamic_names())
        return tuple(found)

    @cached_property
    def comments(self) -> tuple[str, ...]:
        """The lines of `.comment`: each compiler that took part, and each linker."""
        text = b"\0".join(self.content(s) for s in self.sections if s.name == ".comment")
        return tuple(dict.fromkeys(_text(line) for line in text.split(b"\0") if line))

    @property
    def executable(self) -> bool:
        """Whether it has machine code."""
        return any(s.flags & SHF_EXECINSTR and s.size for s in self.sections)

    def debug(self) -> Iterator[bytes]:
        """Yield the parts of the debug info that name compilers."""
        yield from (self.content(s) for s in self.sections if s.name in _DEBUG)

    def unpacked(self) -> Iterator[bytes]:
        """Yield what the file's own bytes do not show: compressed sections."""
        yield from map(self.content, self._compressed)

    @cached_property
    def _compressed(self) -> tuple[Section, ...]:
        return tuple(
            s for s in self.sections if s.flags & packed.SHF_COMPRESSED or s.name.startswith(".zdebug_")
        )

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The libraries that it needs."""
        strings = self._strings()
        return tuple(self._name(strings, value) for tag, value in self._dynamic if tag == _DT_NEEDED)

    @cached_property
    def _segments(self) -> tuple[Segment, ...]:
        offset, size, count = self._layout.segments
        if not offset:
            return ()
        if self.bits == 32:
            rows = self._table("IIIIIIII", offset, size, count)
            return tuple(Segment(row[0], row[1], row[2], row[4]) for row in rows)
        rows = self._table("IIQQQQQQ", offset, size, count)
        return tuple(Segment(row[0], row[2], row[3], row[5]) for row in rows)

    @cached_property
    def _dynamic(self) -> tuple[tuple[int, int], ...]:
        segment = next((s for s in self._segments if s.type == _PT_DYNAMIC), None)
        if segment is None:
            return ()
        entry = struct.Struct(self._order + ("iI" if self.bits == 32 else "qQ"))
        table = self._slice(segment.offset, segment.size - segment.size % entry.size)
        found = []
        for tag, value in entry.iter_unpack(table):
            if not tag:
                break
            found.append((tag, value))
        return tuple(found)

    def _strings(self) -> bytes:
        values = dict(reversed(self._dynamic))
        if _DT_STRTAB not in values:
            return b""
        address = values[_DT_STRTAB]
        for s in self._segments:
            if s.type == _PT_LOAD and s.address <= address < s.address + s.size:
                return self._slice(address - s.address + s.offset, values.get(_DT_STRSZ, 0))
        raise MalformedError.of("its dynamic strings lie in no loaded segment")

    def _dynamic_names(self) -> list[str]:
        return [_text(name) for name in self._strings().split(b"\0") if name]

    def _symbols(self, table: bytes, strings: bytes) -> Iterator[Symbol]:
        entry = struct.Struct(self._order + ("IIIBBH" if self.bits == 32 else "IBBHQQ"))
        if len(table) % entry.size:
            raise MalformedError.of("a symbol table ends in the middle of a symbol")
        for row in entry.iter_unpack(table):
            info, section = (row[3], row[5]) if self.bits == 32 else (row[1], row[3])
            if not row[0]:
                continue
            binding = info >> 4
            yield Symbol(
                self._name(strings, row[0]),
                defined=section != 0,
                weak=binding == _STB_WEAK,
                local=binding == _STB_LOCAL,
                file=info & 15 == _STT_FILE,
            )

    def _name(self, table: bytes, index: int) -> str:
        end = table.find(b"\0", index)
        if index >= len(table) > 0 or (end < 0 and table):
            raise MalformedError.of("a name lies outside of its table")
        self._left -= end - index
        if self._left < 0:
            raise MalformedError.of("its names add up to more than a file of its size can have")
        return _text(table[index:end]) if table else ""

    def _table(self, fields: str, offset: int, size: int, count: int) -> list[tuple[int, ...]]:
        layout = struct.Struct(self._order + fields)
        if count and size < layout.size:
            raise MalformedError.of(f"headers of {size} bytes")
        table = self._slice(offset, size * count)
        return [layout.unpack_from(table, index * size) for index in range(count)]

    def _unpack(self, fields: str, offset: int) -> tuple[int, ...]:
        layout = struct.Struct(self._order + fields)
        return layout.unpack(self._slice(offset, layout.size))

    def _slice(self, offset: int, size: int) -> bytes:
        if offset + size > len(self.data):
            raise MalformedError.of(f"it ends at byte {len(self.data)}, before {offset + size}")
        return self.data[offset : offset + size]


def _stored(row: tuple[int, ...]) -> int:
    return 0 if row[1] == SHT_NOBITS else row[5]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
