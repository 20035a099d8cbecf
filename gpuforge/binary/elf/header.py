"""Reads the headers of an ELF file, its string tables and its dynamic section.

System V gABI, chapters 4 and 5: https://gabi.xinuos.com
"""

import struct
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple

from gpuforge.binary.window import Window, find
from gpuforge.errors import MalformedError

MAGIC = b"\x7fELF"
RELOCATABLE, PROGRAM, SHARED = 1, 2, 3  # e_type
EM_X86_64, EM_AARCH64, EM_CUDA = 62, 183, 190
MACHINES = {
    3: "i686", EM_X86_64: "x86_64", EM_AARCH64: "aarch64", 40: "armv7l", 22: "s390x", 21: "ppc64le", 243: "riscv64",
    258: "loongarch64",
}  # fmt: skip
"""Processors by e_machine, as platform tags name them."""
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 3, 4, 0x6474E551, 0x6474E552
PT_TLS = 7
PF_X, PF_W, PF_R = 1, 2, 4
_MOST_SEGMENTS = (1 << 16) // 56  # as in Linux' load_elf_phdrs: 64 KiB
_EXTENDED = 0xFFFF  # of e_shstrndx: the number is in the first section header


class Segment(NamedTuple):
    """A program header."""

    type: int
    flags: int
    offset: int
    address: int
    size: int  # bytes in the file
    memory: int = 0  # bytes in memory
    align: int = 0


class Header(NamedTuple):
    """The ELF header and the program headers."""

    bits: int
    order: str  # struct's byte order: "<" or ">"
    type: int
    machine: int
    section_offset: int
    section_size: int
    section_count: int
    section_names: int  # the number of the section with the names
    segments: tuple[Segment, ...] = ()
    flags: int = 0
    abi_version: int = 0
    os_abi: int = 0
    versions: Collection[int] = (1,)  # in e_ident and e_version
    is_usual: bool = True  # the rest of e_ident is zeros, and program headers have their usual size

    def segment(self, kind: int) -> Segment | None:
        """Return the segment of a type that counts if there are several.

        glibc and Linux take the last one (elf/dl-load.c, fs/binfmt_elf.c), but Linux the first PT_INTERP.
        """
        of_kind = (s for s in (self.segments if kind == PT_INTERP else self.segments[::-1]) if s.type == kind)
        return next(of_kind, None)

    def file_offset(self, address: int) -> int:
        """Return the offset in the file of an address in memory. Raises MalformedError."""
        for s in self.segments:
            if s.type == PT_LOAD and s.address <= address < s.address + s.size:
                return address - s.address + s.offset
        raise MalformedError.of(f"address {address:#x} lies in no loaded segment")

    @property
    def page(self) -> int:
        """The smallest alignment of a loaded segment: larger pages cannot map it. 0 without one."""
        return min((s.align for s in self.segments if s.type == PT_LOAD), default=0)

    @property
    def loaded_end(self) -> int:
        """The offset after the last loaded segment."""
        return max((s.offset + s.size for s in self.segments if s.type == PT_LOAD), default=0)


def is_cubin(head: bytes) -> bool:
    """Return whether a file with these first bytes is a cubin."""
    return head[:6] == MAGIC + b"\2\1" and head[18:20] == EM_CUDA.to_bytes(2, "little")


def read_header(window: Window) -> Header:
    """Read the headers. Raises MalformedError, and MissedError if they were not kept."""
    ident = window.read(0, 16)
    if ident[:4] != MAGIC or ident[4] not in (1, 2) or ident[5] not in (1, 2):
        raise MalformedError.of("its first 16 bytes are not an ELF header")
    bits, order = 32 * ident[4], "<>"[ident[5] - 1]
    fields = layout(order + ("HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH"))
    (kind, machine, version, _, phoff, shoff, flags, _, phentsize, phnum, shentsize, shnum, names) = (
        fields.unpack(window.read(16, fields.size))
    )
    segments = _segments(window, bits, order, phoff, phentsize, phnum)
    if shoff and (shnum == 0 or names == _EXTENDED):
        first = layout(order + ("20xII12x" if bits == 32 else "32xQI20x"))
        count, index = first.unpack(window.read(shoff, first.size))
        shnum, names = shnum or count, index if names == _EXTENDED else names
    if shnum * shentsize > window.size:
        raise MalformedError.of(f"{shnum} section headers do not fit into it")
    return Header(
        bits,
        order,
        kind,
        machine,
        shoff,
        shentsize,
        shnum if shoff else 0,
        names,
        segments,
        flags,
        ident[8],
        ident[7],
        frozenset((ident[6], version)),
        not any(ident[9:]) and (not segments or phentsize == (32 if bits == 32 else 56)),
    )


@cache
def layout(fields: str) -> struct.Struct:
    """Return the compiled form of a format of `struct`."""
    return struct.Struct(fields)


def _segments(
    window: Window, bits: int, order: str, offset: int, size: int, count: int
) -> tuple[Segment, ...]:
    if not count:
        return ()
    fields = layout(order + ("III4xIIII" if bits == 32 else "IIQQ8xQQQ"))
    if size < fields.size:
        raise MalformedError.of(f"program headers of {size} bytes")
    if count > _MOST_SEGMENTS:
        raise MalformedError.of(f"{count} program headers, and Linux takes {_MOST_SEGMENTS}")
    table = window.read(offset, size * count)
    rows = [fields.unpack_from(table, index * size) for index in range(count)]
    if bits == 32:
        rows = [
            (kind, flags, start, address, length, memory, align)
            for kind, start, address, length, memory, flags, align in rows
        ]
    return tuple(map(Segment._make, rows))


LONGEST = 32 << 20  # bytes of a table that are kept and searched
_NAMES = 16  # times the size of a file: limit for the characters of names in one table
_SPARE = 1 << 16  # characters more, for small files


class StringTable:
    """A string table of a file. Its methods raise MalformedError, and MissedError if it was not kept."""

    def __init__(
        self, window: Window, offset: int = 0, size: int = 0, *, content: bytes | None = None
    ) -> None:
        """Use a range of the file, or the `content` of a section that was compressed."""
        self._window, self._offset = window, offset
        self._size = size if content is None else len(content)
        self._all = content
        # else it counts as empty in `has` and `all`
        self.is_searched = content is not None or size <= LONGEST
        beyond = offset + size > window.size
        self._too_long = content is None and (size > LONGEST or beyond)

    def text(self, index: int) -> str:
        """Return the string at `index`."""
        if index >= self._size:
            raise MalformedError.of(f"string {index} of a table of {self._size} bytes")
        if self._too_long:
            text = self._window.text(self._offset + index, self._offset + self._size)
            self._window.budget.spend("names", len(text))
            return text
        table = self.all()
        end = table.find(b"\0", index)
        if end < 0:
            raise MalformedError.of(f"the string at byte {self._offset + index} has no end")
        self._window.budget.spend("names", end - index)
        return table[index:end].decode("utf-8", "backslashreplace")

    def texts(self, indexes: Sequence[int]) -> list[str]:
        """Return many strings at once, which may not add up to more than `limit`."""
        if self._too_long:
            return [self.text(index) for index in indexes]
        table = self.all()
        ends = [table.find(b"\0", index) for index in indexes]
        if -1 in ends:
            return [self.text(index) for index in indexes]  # one of them raises
        characters = sum(ends) - sum(indexes)
        if characters > self.limit:
            raise MalformedError.of("its names add up to more than a file of its size can have")
        self._window.budget.spend("names", characters)
        if not table.isascii():
            return [
                table[index:end].decode("utf-8", "backslashreplace")
                for index, end in zip(indexes, ends, strict=True)
            ]
        text = table.decode("ascii")
        return [text[index:end] for index, end in zip(indexes, ends, strict=True)]

    @property
    def limit(self) -> int:
        """The most characters that all names of a file may have together: strings may share their ends."""
        return _NAMES * self._window.size + _SPARE

    def has(self, word: bytes) -> bool:
        """Return whether the bytes are anywhere in the table."""
        return find(self.all(), word) >= 0

    def all(self) -> bytes:
        """Return the whole table, or b"" if it is too long to be searched."""
        if self._all is None:
            self._all = self._window.read(self._offset, self._size) if self.is_searched else b""
        return self._all


DT_NULL, DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ = 0, 1, 4, 5, 6, 10
DT_SONAME, DT_RPATH, DT_RUNPATH, DT_GNU_HASH = 14, 15, 29, 0x6FFFFEF5
DT_VERNEED, DT_FILTER, DT_AUXILIARY = 0x6FFFFFFE, 0x7FFFFFFF, 0x7FFFFFFD
DT_AUDIT, DT_DEPAUDIT = 0x6FFFFEFC, 0x6FFFFEFB
DT_VERSYM, DT_VERDEF = 0x6FFFFFF0, 0x6FFFFFFC
DT_FLAGS, DF_STATIC_TLS = 30, 0x10
DT_RELA, DT_RELASZ, DT_JMPREL, DT_PLTRELSZ = 7, 8, 23, 2
DT_FLAGS_1, DF_1_PIE = 0x6FFFFFFB, 0x08000000
NAMES = (DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_FILTER, DT_AUXILIARY)
_LONGEST_DYNAMIC = 1 << 20  # bytes of the section
_PAGE = 1 << 12  # bytes; no Linux has smaller pages
_NEXT_ENTRIES = 1 << 12  # bytes that are read at once beyond the segment


def is_program(kind: int, values: Mapping[int, int], *, interpreter: bool) -> bool:
    """Return whether a file is started, not loaded, by its type, its dynamic section and whether it has an interpreter.

    Some libraries have one: libc.so.6 and libQt5Core.so.5 print their versions when they are started.
    """
    if kind == PROGRAM or values.get(DT_FLAGS_1, 0) & DF_1_PIE:
        return True
    return interpreter and DT_SONAME not in values


class Dynamic:
    """The dynamic section of a file, and the strings that it refers to."""

    def __init__(self, window: Window, header: Header) -> None:
        """Read the entries. Raises MalformedError, and MissedError if they were not kept."""
        self.entries = _dynamic_entries(window, header)
        self.values = dict(self.entries)  # the last one of a repeated tag counts, as for the dynamic linkers
        self._window, self._header = window, header

    @cached_property
    def strings(self) -> StringTable:
        """The table of its strings. Raises MalformedError."""
        if not self.entries:
            return StringTable(self._window)
        if DT_STRTAB not in self.values or DT_STRSZ not in self.values:
            raise MalformedError.of("its dynamic section names no string table")
        return StringTable(self._window, self.place(DT_STRTAB), self.values[DT_STRSZ])

    def place(self, tag: int) -> int:
        """Return the offset in the file of a tag's table. Raises MalformedError."""
        return self._header.file_offset(self.values[tag])

    @property
    def soname(self) -> str:
        """DT_SONAME, "" without one."""
        return self._text(DT_SONAME) or ""

    @property
    def needed(self) -> tuple[str, ...]:
        """DT_NEEDED, in order, and DT_FILTER, as glibc loads both alike (elf/dl-deps.c, _dl_map_object_deps)."""
        return tuple(self.strings.text(value) for tag, value in self.entries if tag in (DT_NEEDED, DT_FILTER))

    @property
    def auxiliary(self) -> tuple[str, ...]:
        """DT_AUXILIARY and a program's auditors: libraries that glibc loads, too, if they are there."""
        tags = (DT_AUXILIARY, DT_AUDIT, DT_DEPAUDIT)
        texts = (self.strings.text(value) for tag, value in self.entries if tag in tags)
        return tuple(name for text in texts for name in text.split(":"))

    @property
    def rpath(self) -> tuple[str, ...] | None:
        """The entries of DT_RPATH as written; None without one."""
        return self._path(DT_RPATH)

    @property
    def runpath(self) -> tuple[str, ...] | None:
        """The entries of DT_RUNPATH as written; None without one."""
        return self._path(DT_RUNPATH)

    def _path(self, tag: int) -> tuple[str, ...] | None:
        """Split a search path; an empty one has no entries, as in glibc (elf/dl-load.c, decompose_rpath)."""
        text = self._text(tag)
        if text is None:
            return None
        return tuple(text.split(":")) if text else ()

    def _text(self, tag: int) -> str | None:
        return self.strings.text(self.values[tag]) if tag in self.values else None


def _dynamic_entries(window: Window, header: Header) -> tuple[tuple[int, int], ...]:
    """Return the entries up to DT_NULL: glibc reads them from the segment's address on, whatever its size."""
    segment = header.segment(PT_DYNAMIC)
    if segment is None or not segment.size:
        return ()
    fields = layout(header.order + ("iI" if header.bits == 32 else "qQ"))
    load = next((s for s in header.segments if s.type == PT_LOAD and _begins_in(segment, s)), segment)
    start, stop = load.offset + segment.address - load.address, load.offset + load.size
    stop = min(stop, start + _LONGEST_DYNAMIC)
    count = segment.size
    entries: list[tuple[int, int]] = []
    while start + fields.size <= stop:
        count = min(count, stop - start) // fields.size * fields.size or fields.size
        for tag, value in fields.iter_unpack(window.read(start, count)):
            if tag == DT_NULL:
                return tuple(entries)
            entries.append((tag, value))
        window.budget.spend("entries", count // fields.size)
        start, count = start + count, _NEXT_ENTRIES
    if load.memory > load.size and stop == load.offset + load.size:  # zeros follow
        return tuple(entries)
    raise MalformedError.of("its dynamic section has no end")


def _begins_in(segment: Segment, load: Segment) -> bool:
    """Return whether a segment begins in a load, which Linux can map only in whole pages."""
    return (
        load.address - load.offset
    ) % _PAGE == 0 and load.address <= segment.address < load.address + load.size
