"""Reads symbol tables (gABI, "Symbol Table"): all symbols, or the dynamic ones that match a pattern."""

import re
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuforge.binary.elf.dynamic import DT_GNU_HASH, DT_HASH, DT_SYMTAB
from gpuforge.binary.elf.file import ElfFile
from gpuforge.binary.elf.header import Header, layout
from gpuforge.binary.elf.patterns import SymbolGroup
from gpuforge.binary.elf.strings import StringTable
from gpuforge.binary.facts import SymbolNames
from gpuforge.binary.search import find_all
from gpuforge.errors import MalformedError

_STB_LOCAL, _STB_GLOBAL, _STB_WEAK = 0, 1, 2
_STT_FILE = 4


class Symbol(NamedTuple):
    """An entry of a symbol table."""

    name: str
    defined: bool
    weak: bool = False
    local: bool = False
    file: bool = False  # it is the name of a source file


def read_table(header: Header, table: bytes, strings: StringTable) -> list[Symbol]:
    """Return the named symbols of a table. Raises MalformedError, and MissedError for the strings."""
    fields = _layout(header)
    if len(table) % fields.size:
        raise MalformedError.of("a symbol table ends in the middle of a symbol")
    rows = [row for row in fields.iter_unpack(table) if row[0]]
    names = strings.texts([row[0] for row in rows])
    return [
        Symbol(
            name,
            defined=section != 0,
            weak=info >> 4 == _STB_WEAK,
            local=info >> 4 == _STB_LOCAL,
            file=info & 15 == _STT_FILE,
        )
        for name, (_, info, section) in zip(names, rows, strict=True)
    ]


def dynamic_symbols(file: ElfFile) -> list[Symbol]:
    """Return the dynamic symbols; without section headers, a hash table has their number.

    Raises MalformedError and MissedError.
    """
    return read_table(file.header, file.window.read(*(_place(file) or (0, 0))), file.dynamic.strings)


def _place(file: ElfFile) -> tuple[int, int] | None:
    """Return the offset and the size of the table of dynamic symbols; None if its size is not known.

    The dynamic linker takes it from the dynamic section; the section `.dynsym` counts only where it agrees.
    """
    section = file.section(".dynsym")
    if DT_SYMTAB not in file.dynamic.values:
        return (0, 0) if section is None else (section.offset, section.size)
    place, count = file.dynamic.place(DT_SYMTAB), _count(file)
    size = None if count is None else count * _layout(file.header).size
    if section is not None and section.offset == place and section.size >= (size or 0):
        return section.offset, section.size
    return None if size is None else (place, size)


def names_of(
    file: ElfFile, groups: Iterable[SymbolGroup], markers: frozenset[str]
) -> tuple[SymbolNames, ...] | None:
    """Return the dynamic symbols of each group that has any; None if they, or their names, cannot be searched.

    Raises MalformedError and MissedError.
    """
    if not file.dynamic.strings.is_searched:
        return None
    sought = [g for g in groups if (not g.marker or g.marker in markers) and _may_have(file, g)]
    if not sought:
        return ()
    if (place := _place(file)) is None:
        return None
    found = []
    for group in sought:
        symbols = list(_matching(file, group, *place))
        undefined = frozenset(name for name, defined, strong in symbols if strong and not defined)
        defined = frozenset(name for name, defined, _ in symbols if defined)
        optional = frozenset(name for name, defined, strong in symbols if not (strong or defined))
        if undefined or defined or optional:
            found.append(SymbolNames(group.name, undefined, defined, optional))
    return tuple(found)


def _may_have(file: ElfFile, group: SymbolGroup) -> bool:
    """Return whether a file may have a symbol of a group, by its strings: it may have a hundred thousand symbols."""
    if group.library and group.library not in file.dynamic.needed:
        return False
    names_end_alike = group.library  # linkers make a string the end of another
    sought = group.parts or [prefix if names_end_alike else b"\0" + prefix for prefix in group.prefixes]
    return any(map(file.dynamic.strings.has, sought))


def _matching(file: ElfFile, group: SymbolGroup, offset: int, size: int) -> Iterator[tuple[str, bool, bool]]:
    """Yield the name of each symbol of a group, whether it is defined, and whether it is neither weak nor local."""
    names, pattern = file.dynamic.strings.all(), re.compile(group.pattern)
    places = {place for prefix in group.prefixes for place in find_all(names, prefix)}
    fields = _layout(file.header)
    table = file.window.read(offset, size - size % fields.size)
    places_of = _words(file.header, table)[:: fields.size // 4]  # st_name is the first field
    for number, place in enumerate(places_of):
        if (group.parts or place in places) and (match := pattern.match(names, place)):
            _, info, index = fields.unpack_from(table, fields.size * number)
            if info >> 4 != _STB_LOCAL and (group.defined or not index):
                file.window.budget.spend("names", len(match[0]))
                yield match[0].decode(), bool(index), info >> 4 == _STB_GLOBAL


def _words(header: Header, data: bytes) -> "array[int]":
    """Return the 32-bit numbers of data."""
    words = array("I", data)
    if (sys.byteorder == "little") is not (header.order == "<"):
        words.byteswap()
    return words


def _layout(header: Header) -> struct.Struct:
    """Return the fields name, info and section of a symbol."""
    return layout(header.order + ("I8xBxH" if header.bits == 32 else "IBxH16x"))


def _count(file: ElfFile) -> int | None:
    """Return the number of dynamic symbols, by DT_HASH or DT_GNU_HASH; None if these do not tell it.

    https://sourceware.org/gnu-gabi/program-loading-and-dynamic-linking.txt
    DT_GNU_HASH has only symbols that are defined; for none GNU ld writes that the first of them would be number 1.
    """
    window, dynamic, word = file.window, file.dynamic, layout(file.header.order + "I")
    if DT_HASH in dynamic.values:
        return int(word.unpack(window.read(dynamic.place(DT_HASH) + 4, 4))[0])
    if DT_GNU_HASH not in dynamic.values:
        return None
    start = dynamic.place(DT_GNU_HASH)
    buckets, first, blooms, _ = layout(file.header.order + "4I").unpack(window.read(start, 16))
    start += 16 + blooms * (file.header.bits // 8)
    last = max(_words(file.header, window.read(start, 4 * buckets)), default=0)
    if last < first:
        return int(first) if first > 1 else None
    start += 4 * (buckets - first)
    while not word.unpack(window.read(start + 4 * last, 4))[0] & 1:
        last += 1
    return int(last) + 1
