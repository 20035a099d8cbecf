"""Reads objects of every kind: all symbols, comments and debug info; compressed sections are unpacked."""

import struct
import zlib
from collections.abc import Iterator
from functools import cached_property

from gpuforge.binary.elf import file, symbols
from gpuforge.binary.elf.file import SHF_COMPRESSED, SHF_EXECINSTR, SHT_DYNSYM, SHT_SYMTAB, ElfFile
from gpuforge.binary.elf.header import DT_STRSZ, DT_STRTAB, StringTable
from gpuforge.binary.elf.symbols import Symbol
from gpuforge.binary.facts import Section
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError

_UNPACKED = 64  # times the size of a file: bytes that its compressed sections may unpack to, each twice
_SPARE = 1 << 20  # bytes more, for small files
_DEBUG = (".debug_info", ".debug_str", ".debug_line_str", ".zdebug_info", ".zdebug_str")


class ObjectFile:
    """An ELF file in memory; each part is read when it is used, and may raise MalformedError."""

    def __init__(self, data: bytes) -> None:
        """Read the headers of the file `data`."""
        self.data = data
        self._elf = ElfFile(Window.of(data))
        self.bits, self.type, self.machine = (
            self._elf.header.bits,
            self._elf.header.type,
            self._elf.header.machine,
        )
        self._room = _UNPACKED * len(data) + _SPARE  # bytes left for compressed sections

    def content(self, section: Section) -> bytes:
        """Return the bytes of a section, unpacked."""
        stored = self._elf.window.read(section.offset, section.size)
        if section not in self._compressed:
            return stored
        if section.flags & SHF_COMPRESSED:
            found = unpacked_section(stored, self.bits, self._elf.header.order, self._room)
        else:
            found = unpacked_zdebug(stored, self._room)
        self._room -= len(found)
        return found

    @property
    def sections(self) -> tuple[Section, ...]:
        """Every section; empty if the section headers were removed."""
        return self._elf.sections

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """Every named symbol of every table; all dynamic names if the section headers were removed."""
        tables = [s for s in self.sections if s.type in (SHT_SYMTAB, SHT_DYNSYM)]
        if sum(s.size for s in tables) > len(self.data):
            raise MalformedError.of("its symbol tables are larger than the file")
        found: list[Symbol] = []
        characters = 0
        for section in tables:
            if section.link >= len(self.sections):
                raise MalformedError.of(f"the names of {section.name} lie in a section that is not there")
            strings = StringTable(self._elf.window, content=self.content(self.sections[section.link]))
            more = symbols.read_table(self._elf.header, self.content(section), strings)
            characters += sum(len(symbol.name) for symbol in more)
            if characters > strings.limit:
                raise MalformedError.of("its names add up to more than a file of its size can have")
            found += more
        if not any(s.type == SHT_DYNSYM for s in tables):
            found += (Symbol(name, defined=False) for name in self._dynamic_names())
        return tuple(found)

    @cached_property
    def comments(self) -> tuple[str, ...]:
        """The lines of `.comment`, each once: names of compilers and linkers."""
        return file.lines(b"\0".join(self.content(s) for s in self.sections if s.name == ".comment"))

    @property
    def has_code(self) -> bool:
        """Whether it has machine code."""
        return any(s.flags & SHF_EXECINSTR and s.size for s in self.sections)

    @property
    def needed(self) -> tuple[str, ...]:
        """The libraries that it needs."""
        return self._elf.dynamic.needed

    def debug(self) -> Iterator[bytes]:
        """Yield the sections of debug info that have names of compilers."""
        yield from (self.content(s) for s in self.sections if s.name in _DEBUG)

    def unpacked(self) -> Iterator[bytes]:
        """Yield the content of the compressed sections."""
        yield from map(self.content, self._compressed)

    @cached_property
    def _compressed(self) -> tuple[Section, ...]:
        return tuple(s for s in self.sections if s.flags & SHF_COMPRESSED or s.name.startswith(".zdebug_"))

    def _dynamic_names(self) -> list[str]:
        dynamic = self._elf.dynamic
        if DT_STRTAB not in dynamic.values:
            return []
        size = dynamic.values.get(DT_STRSZ, 0)
        names = self._elf.window.read(dynamic.place(DT_STRTAB), size).split(b"\0")
        return [name.decode("utf-8", "backslashreplace") for name in names if name]


_ZLIB, _ZSTD = 1, 2


def unpacked_section(stored: bytes, bits: int, order: str, room: int) -> bytes:
    """Return the content of a section with a compression header: `room` bytes at most. Raises MalformedError."""
    layout = struct.Struct(order + ("III" if bits == 32 else "I4xQQ"))
    if len(stored) < layout.size:
        raise MalformedError.of("a compressed section is shorter than its header")
    kind, size, _ = layout.unpack_from(stored)
    return _unpack(kind, stored[layout.size :], size, room)


def unpacked_zdebug(stored: bytes, room: int) -> bytes:
    """Return the content of a `.zdebug_*` section: `room` bytes at most. Raises MalformedError."""
    if not stored:
        return b""
    if stored[:4] != b"ZLIB" or len(stored) < 12:
        raise MalformedError.of("a .zdebug section does not begin with ZLIB")
    return _unpack(_ZLIB, stored[12:], int.from_bytes(stored[4:12], "big"), room)


def _unpack(kind: int, data: bytes, size: int, room: int) -> bytes:
    if size > room:
        raise MalformedError.of(f"a compressed section would have {size} bytes")
    if kind == _ZLIB:
        found = _inflated(data, size)
    elif kind == _ZSTD:
        found = _zstd(data, size)
    else:
        raise MalformedError.of(f"a section is compressed by the unknown method {kind}")
    if len(found) != size:
        raise MalformedError.of("a compressed section has another size than its header")
    return found


def _inflated(data: bytes, size: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, size + 1)
    except zlib.error as error:
        raise MalformedError.of("a compressed section cannot be unpacked") from error


def _zstd(data: bytes, size: int) -> bytes:
    import zstandard  # noqa: PLC0415  few files have such sections

    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
            return stream.read(size + 1)
    except zstandard.ZstdError as error:
        raise MalformedError.of("a compressed section cannot be unpacked") from error
