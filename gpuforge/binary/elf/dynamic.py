"""Reads the dynamic section: SONAME, NEEDED, RPATH, RUNPATH and the places of tables (gABI, "Dynamic Section")."""

from collections.abc import Mapping
from functools import cached_property

from gpuforge.binary.elf.header import PROGRAM, PT_DYNAMIC, Header, layout
from gpuforge.binary.elf.strings import StringTable
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError

DT_NULL, DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ = 0, 1, 4, 5, 6, 10
DT_SONAME, DT_RPATH, DT_RUNPATH, DT_GNU_HASH = 14, 15, 29, 0x6FFFFEF5
DT_VERNEED, DT_FILTER = 0x6FFFFFFE, 0x7FFFFFFF
DT_FLAGS_1, DF_1_PIE = 0x6FFFFFFB, 0x08000000
NAMES = (DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_FILTER)
_LONGEST = 1 << 20  # bytes of the section


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
        self.entries = _entries(window, header)
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


def _entries(window: Window, header: Header) -> tuple[tuple[int, int], ...]:
    segment = header.segment(PT_DYNAMIC)
    if segment is None:
        return ()
    if segment.size > _LONGEST:
        raise MalformedError.of(f"a dynamic section of {segment.size} bytes")
    fields = layout(header.order + ("iI" if header.bits == 32 else "qQ"))
    table = window.read(segment.offset, segment.size - segment.size % fields.size)
    entries: list[tuple[int, int]] = []
    for tag, value in fields.iter_unpack(table):
        if tag == DT_NULL:
            break
        entries.append((tag, value))
    window.budget.spend("entries", len(entries))
    return tuple(entries)
