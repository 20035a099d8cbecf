"""Finds names in ELF files: symbols, and what a caller's patterns match in symbols, strings and constants.

Symbol tables: gABI, "Symbol Table". Constants have names of libraries, as for dlopen, and PTX texts, as of Halide.
"""

import re
import struct
import sys
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain, compress
from typing import NamedTuple

from gpuforge.binary import cubin, ptx
from gpuforge.binary.elf.file import (
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_LLVM_OFFLOADING,
    SHT_PROGBITS,
    ElfFile,
    defined_versions,
    needed_versions,
    version_hash,
)
from gpuforge.binary.elf.header import (
    DF_STATIC_TLS,
    DT_FLAGS,
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_PLTRELSZ,
    DT_RELA,
    DT_RELASZ,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERSYM,
    EM_X86_64,
    PF_X,
    PT_LOAD,
    PT_TLS,
    Header,
    StringTable,
    layout,
)
from gpuforge.binary.facts import Bindings, FatbinContainer, SymbolNames
from gpuforge.binary.window import MissedError, find_all
from gpuforge.errors import MalformedError

_PRODUCER = 256  # bytes of debug info: DW_AT_producer is its first string


class SymbolGroup(NamedTuple):
    """Dynamic symbols that one pattern matches."""

    name: str
    prefixes: tuple[bytes, ...]  # each name begins with one of them; a search for these first is faster
    pattern: bytes  # of the whole name
    marker: str = ""  # only files with this marker are searched
    defined: bool = True  # definitions are included
    parts: tuple[bytes, ...] = ()  # or each name contains one of them; then there are no prefixes
    library: str = ""  # only files that need this library are searched


class TextMarker(NamedTuple):
    """A marker of files with a text in them, outside of fatbin containers."""

    name: str = ""
    text: bytes = b""
    own: str = ""  # how the SONAME of the library begins that has the text, and not the marker


class Patterns(NamedTuple):
    """The patterns to look for in ELF files; groups in regular expressions are versions of compilers."""

    markers: tuple[tuple[str, bytes], ...] = ()  # name, and the beginning of a dynamic string
    text: TextMarker = TextMarker()
    symbols: tuple[SymbolGroup, ...] = ()
    libraries: bytes = b""  # a regular expression for names in constants, up to the NUL after them
    paths: tuple[tuple[bytes, bytes], ...] = ()  # a part of a path, and a regular expression for the path
    # a part of a text in constants of programs, and a regular expression for the release that it names
    release: tuple[bytes, bytes] = (b"", b"")
    # texts in each user of NumPy's C API, and in those compiled for NumPy 2
    numpy: tuple[bytes, bytes] = (b"", b"")
    producers: tuple[tuple[str, bytes], ...] = ()  # marker, and a regular expression for DW_AT_producer


def markers(file: ElfFile, patterns: Patterns) -> frozenset[str]:
    """Return the markers of a file."""
    strings = file.dynamic.strings
    return frozenset(name for name, start in patterns.markers if strings.has(b"\0" + start))


def compilers(file: ElfFile, patterns: Patterns, found: frozenset[str]) -> tuple[str, ...]:
    """Return the versions of compilers in the debug info, and in paths, which patchelf leaves among the strings.

    `found` are the markers of the file.
    """
    strings = file.dynamic.strings
    versions: list[bytes] = []
    for part, path in patterns.paths:
        if strings.has(part):
            versions += re.findall(path, strings.all())
    for marker, producer in patterns.producers:
        for name in (".debug_info", ".debug_str") if marker in found else ():
            if section := file.section(name):
                versions += re.findall(
                    producer, file.window.read(section.offset, min(section.size, _PRODUCER))
                )
    return tuple(sorted({version.decode() for version in versions}))


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


def symbol_count(file: ElfFile) -> int | None:
    """Return the number of dynamic symbols; None if it is not known. Raises MalformedError and MissedError."""
    place = _place(file)
    return None if place is None else place[1] // _layout(file.header).size


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


# GLOBAL, WEAK, GNU_UNIQUE; NOTYPE to GNU_IFUNC
_FOUND, _FOUND_TYPES, _STT_TLS = (1, 2, 10), (0, 1, 2, 5, 6, 10), 6
_KINDS = {
    0: "",
    1: "variable",
    5: "variable",
    _STT_TLS: "thread-local variable",
    2: "function",
    10: "function",
}
# for each kind but functions: 1 at each st_info of that kind
_OF_KIND = {
    kind: bytes(_KINDS.get(info & 15) == kind for info in range(256))
    for kind in ("", "variable", _KINDS[_STT_TLS])
}
_HIDDEN, _SHN_ABS = (1, 2), 0xFFF1
_STT_OBJECT, _OF_CODE, _ABSOLUTE = 1, (0, 2, 10), _SHN_ABS.to_bytes(2, "little")
_MOST_IMPORTS = 1 << 17  # symbols of a table that are read
_HIDDEN_VERSION = 0x8002  # the least number of a hidden version in DT_VERSYM, that of the first one


def bindings(file: ElfFile) -> Bindings | None:
    """Return the symbols by which a file is bound to others; None if they were not kept, or there are too many.

    In the order of DT_GNU_HASH symbols that are not defined come first, and the hashes of the others are in the table.
    Raises MalformedError.
    """
    place = _place(file)
    if place is None or not file.dynamic.strings.is_searched:
        return None
    values, size = file.dynamic.values, _layout(file.header).size
    count = place[1] // size
    try:
        gnu = DT_GNU_HASH in values
        first, hashes, followed = _hashes(file, place[0], count) if gnu else (count, array("I"), True)
        if first > _MOST_IMPORTS:
            return None
        table = file.window.read(place[0], size * (first + len(hashes)))
        versions, needed = defined_versions(file), needed_versions(file)
        numbers = _version_numbers(file, count if versions else first)
        rows = list(_layout(file.header).iter_unpack(table[: size * first]))
        undefined = [
            n for n, (_, info, section) in enumerate(rows) if info >> 4 == _STB_GLOBAL and not section
        ]
        weak = [n for n, (_, info, section) in enumerate(rows) if info >> 4 == _STB_WEAK and not section]
        undefined += _called(file, weak)
        defined: Sequence[int] = range(first, first + len(hashes))
        if (DT_SYMTAB in values) is values.keys().isdisjoint({DT_HASH, DT_GNU_HASH}):
            defined, hashes = [], array("I")  # the dynamic linker finds none of them
        elif not gnu:
            defined = [n for n, (_, info, section) in enumerate(rows) if info >> 4 != _STB_LOCAL and section]
            hashes, followed = _by_sysv_hash(file, defined, _names(file, rows, defined))
        else:
            for number in _not_found(file, table[size * first :]):
                hashes[number] = 0
    except MissedError:  # another pass takes too long
        return None
    _check_imports(file, undefined, table, numbers, needed)
    imports: dict[tuple[str, str], list[str]] = {}
    for number, name in zip(undefined, _names(file, rows, undefined), strict=True):
        library, version = needed.get(numbers[number] & 0x7FFF, ("", "")) if numbers else ("", "")
        kind = _KINDS.get(rows[number][1] & 15, "")
        imports.setdefault((library, kind), []).append(f"{name}@{version}" if version else name)
    kinds = _kinds(file, table, defined, hashes)
    if versions and numbers:
        at = {number: version_hash(version) if number > 1 else 0 for number, version in versions.items()}
        of_symbols = (at.get(numbers[n] & 0x7FFF, 0) for n in defined)
        with_versions = [hash_at(name, version) for name, version in zip(hashes, of_symbols, strict=True)]
        for index in _hidden(file, table, numbers, defined):
            hashes[index] = 0
        hashes += array("I", with_versions)
    named = {key: tuple(names) for key, names in imports.items()}
    of_kinds = {kind: each.tobytes() for kind, each in kinds.items() if each}
    return Bindings(named, hashes.tobytes(), tuple(versions.values()), of_kinds, followed)


def _check_imports(
    file: ElfFile, undefined: Sequence[int], table: bytes, numbers: Sequence[int], needed: Container[int]
) -> None:
    """Raise MalformedError for imports that no linker writes: hidden ones, and those of a version without a name."""
    size, bits = _layout(file.header).size, file.header.bits
    others = table[5 if bits == 64 else 13 :: size]
    for number in undefined:
        version = numbers[number] & 0x7FFF if numbers else 0
        if others[number] & 3 or (version > 1 and version not in needed):
            name = file.dynamic.strings.text(_words(file.header, table[number * size :][:4])[0])
            what = (
                "as a hidden one" if others[number] & 3 else "at a version that it does not name (DT_VERSYM)"
            )
            raise MalformedError.of(f"it imports {name:.80} {what}")


def _kinds(
    file: ElfFile, table: bytes, defined: Sequence[int], hashes: "array[int]"
) -> "dict[str, array[int]]":
    """Return the hashes of symbols by kind, but for functions. A function outside of all code is a variable.

    What is nowhere is hidden: its hash becomes 0.
    """
    size = _layout(file.header).size
    kinds = bytearray(map(table[4 if file.header.bits == 64 else 12 :: size].__getitem__, defined))
    if file.header.bits == 64 and file.header.order == "<":
        loads = [s for s in file.header.segments if s.type == PT_LOAD]
        code = [s for s in loads if s.flags & PF_X]
        first = min((s.address for s in code), default=0)
        behind = max((s.address + s.memory for s in code), default=0)
        places = array("Q", table)[1::3]
        for index, number in enumerate(defined):
            place, kind = places[number], kinds[index] & 15
            fixed = kind == _STT_TLS or table[size * number + 6 : size * number + 8] == _ABSOLUTE
            if first <= place < behind or fixed:
                continue
            if not any(s.address <= place <= s.address + s.memory for s in loads):  # `_end` is behind them
                hashes[index] = 0
            kinds[index] = _STT_OBJECT if kind in _OF_CODE else kinds[index]
    return {kind: array("I", compress(hashes, kinds.translate(of))) for kind, of in _OF_KIND.items()}


def _hidden(file: ElfFile, table: bytes, numbers: Sequence[int], defined: Sequence[int]) -> Iterator[int]:
    """Yield the positions in `defined` of symbols that a name without a version is not bound to.

    It is bound to those of the first version, 2, also if that is hidden; Python's dlsym is not.
    """
    hidden = [index for index, number in enumerate(defined) if numbers[number] >= _HIDDEN_VERSION]
    rows = (table[_layout(file.header).size * defined[index] :][:4] for index in hidden)
    names = file.dynamic.strings.texts([_words(file.header, row)[0] for row in rows])
    for index, name in zip(hidden, names, strict=True):
        if numbers[defined[index]] > _HIDDEN_VERSION or name.startswith("PyInit"):
            yield index


def _names(file: ElfFile, rows: Sequence[tuple[int, int, int]], numbers: Sequence[int]) -> list[str]:
    return file.dynamic.strings.texts([rows[number][0] for number in numbers])


def gnu_hash(name: str) -> int:
    """Return the hash of a symbol in DT_GNU_HASH."""
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def export_hash(value: int, *, followed: bool) -> int:
    """Return the number of a symbol with this hash in `Bindings.exports`: without a bit, with the lowest bit set.

    DT_GNU_HASH has no lowest bit, so that x_2 and x_3 are one. Where names were read, the highest bit is left out.
    """
    return (value << 1 | 1) & 0xFFFFFFFF if followed else value | 1


def hash_at(name: int, version: int) -> int:
    """Return a hash of a symbol at a version; 0 is the base version, which glibc takes for any."""
    return (name + version * 0x9E3779B1) << 1 & 0xFFFFFFFE


def _hashes(file: ElfFile, start: int, count: int) -> "tuple[int, array[int], bool]":
    """Return the number of the first symbol in DT_GNU_HASH, the hashes of it and all that follow, and if all are right.

    `start` is the offset of the symbols. Each bucket that is used has one end in the chain. In tables of usual size,
    which are right, 0 stands for a symbol that the dynamic linker does not find: the bloom filter hides it, its hash is
    that of another name, or no bucket leads to it.
    """
    window, place = file.window, file.dynamic.place(DT_GNU_HASH)
    buckets, first, blooms, shift = layout(file.header.order + "4I").unpack(window.read(place, 16))
    if blooms & (blooms - 1):
        raise MalformedError.of(f"its hash table has a filter of {blooms} words, and glibc ends the process")
    if first >= count:
        return count, array("I"), True
    width = file.header.bits
    bits = blooms * (width // 8)
    table = window.read(place + 16, bits + 4 * (buckets + count - first))
    places, chain = (
        _words(file.header, part) for part in (table[bits : bits + 4 * buckets], table[bits + 4 * buckets :])
    )
    # It exports nothing: linkers write no chain, and may count from the first undefined symbol.
    if not any(places):
        return count, array("I"), True
    if len(places) - places.count(0) != sum(each & 1 for each in chain) or not any(table[:bits]):
        raise MalformedError.of("its hash table (DT_GNU_HASH) does not lead to its symbols")
    size = _layout(file.header).size
    symbols = window.read(start + first * size, len(chain) * size if len(chain) <= _MOST_FOLLOWED else 0)
    names = file.dynamic.strings.texts(_words(file.header, symbols)[:: size // 4])
    if not 0 < sum(map(len, names)) <= _MOST_CHARACTERS:
        return first, array("I", (each | 1 for each in chain)), False
    words = layout(f"{file.header.order}{blooms}{'Q' if width == 64 else 'I'}").unpack(table[:bits])
    found, of_bucket = array("I"), first  # the first symbol of the bucket
    for number, (name, link) in enumerate(zip(names, chain, strict=True), first):
        value = gnu_hash(name)
        word = words[value // width % blooms]
        seen = word >> value % width & word >> (value >> shift) % width & 1
        led_to = of_bucket <= places[value % buckets] <= number
        found.append(export_hash(value, followed=True) if seen and led_to and value | 1 == link | 1 else 0)
        of_bucket = number + 1 if link & 1 else of_bucket
    return first, found, True


_MOST_FOLLOWED = 4096  # symbols of a hash table whose names are read
_MOST_CHARACTERS = 1 << 16  # of these names: hashing more takes longer than all else of a file


def _by_sysv_hash(file: ElfFile, numbers: Sequence[int], names: Sequence[str]) -> "tuple[array[int], bool]":
    """Return the hashes of symbols as DT_GNU_HASH has them, and if the dynamic linker finds all that are not 0."""
    hashes = array("I", (export_hash(gnu_hash(name), followed=True) for name in names))
    if DT_HASH not in file.dynamic.values:
        return hashes, True
    start = file.dynamic.place(DT_HASH)
    buckets, count = layout(file.header.order + "2I").unpack(file.window.read(start, 8))
    if len(numbers) > _MOST_FOLLOWED or buckets + count > 16 * _MOST_FOLLOWED:
        return array("I", (export_hash(gnu_hash(name), followed=False) for name in names)), False
    table = _words(file.header, file.window.read(start + 8, 4 * (buckets + count)))
    led_to: dict[int, int] = {}  # a symbol -> its bucket
    for bucket, number in enumerate(table[:buckets]):
        while 0 < number < count and number not in led_to:
            led_to[number] = bucket
            number = table[buckets + number]  # noqa: PLW2901  the next one of the bucket
    for index, (number, name) in enumerate(zip(numbers, names, strict=True)):
        if led_to.get(number) != version_hash(name) % max(buckets, 1):
            hashes[index] = 0
    return hashes, True


def _called(file: ElfFile, weak: Sequence[int]) -> list[int]:
    """Return which weak symbols are only called: code that can do without one looks at its address before.

    Of calls the linker makes other relocations than of addresses. Where these are not at hand, none is returned.
    """
    if not weak or file.header.bits == 32 or file.header.order == ">":
        return []
    called = set(weak) & (_relocated(file, DT_JMPREL, DT_PLTRELSZ) or set())
    looked_at = _relocated(file, DT_RELA, DT_RELASZ) if called else None
    return sorted(called - looked_at) if looked_at is not None else []


def _relocated(file: ElfFile, tag: int, size_tag: int) -> set[int] | None:
    """Return the numbers of the symbols in a table of relocations; None if it is not at hand."""
    values = file.dynamic.values
    if not {tag, size_tag} <= values.keys():
        return set()
    start, size = file.dynamic.place(tag), values[size_tag] // 24 * 24
    if not file.window.has(start, start + size):
        return None
    return set(_words(file.header, file.window.read(start, size))[3::6])


def _not_found(file: ElfFile, table: bytes) -> list[int]:
    """Return which of the symbols in a table the dynamic linker passes over (glibc, elf/dl-lookup.c, check_match).

    Hidden and local ones, those of other types, and those without a value.
    """
    if file.header.bits == 32:
        return []
    size = _layout(file.header).size
    kinds, places, values = table[4::size], table[5::size], array("Q", table)[1::3]
    odd_kinds = {kind for kind in set(kinds) if kind >> 4 not in _FOUND or kind & 15 not in _FOUND_TYPES}
    odd_places = {place for place in set(places) if place & 3 in _HIDDEN}
    if not (odd_kinds or odd_places or 0 in values):
        return []
    absolute = _SHN_ABS.to_bytes(2, "little" if file.header.order == "<" else "big")
    return [
        number
        for number, (kind, place, value) in enumerate(zip(kinds, places, values, strict=True))
        if kind in odd_kinds
        or place in odd_places
        or not (value or kind & 15 == _STT_TLS or table[number * size + 6 : number * size + 8] == absolute)
    ]


def _version_numbers(file: ElfFile, count: int) -> "array[int]":
    """Return the numbers of the versions of the first symbols; empty if they have none."""
    numbers = array("H")
    if DT_VERSYM in file.dynamic.values:
        numbers.frombytes(file.window.read(file.dynamic.place(DT_VERSYM), 2 * count))
        if (sys.byteorder == "little") is not (file.header.order == "<"):
            numbers.byteswap()
    return numbers


def static_tls(file: ElfFile) -> int:
    """Return the size of thread-local variables that must be at a fixed distance from the thread pointer, in bytes."""
    segment = file.header.segment(PT_TLS)
    if not segment:
        return 0
    flagged = file.dynamic.values.get(DT_FLAGS, 0) & DF_STATIC_TLS
    return segment.memory if flagged or (segment.memory > _LARGE_TLS and _has_fixed(file)) else 0


_LARGE_TLS = 1024  # bytes
_R_X86_64_TPOFF64, _R_AARCH64_TLS_TPREL = 18, 1030


def _has_fixed(file: ElfFile) -> bool:
    """Return whether relocations that are at hand put thread-local variables at a fixed distance."""
    values, row = file.dynamic.values, layout(file.header.order + "3Q")
    if file.header.bits == 32 or not {DT_RELA, DT_RELASZ} <= values.keys():
        return False
    start, size = file.dynamic.place(DT_RELA), values[DT_RELASZ] // row.size * row.size
    if not file.window.has(start, start + size):
        return False
    kind = _R_X86_64_TPOFF64 if file.header.machine == EM_X86_64 else _R_AARCH64_TLS_TPREL
    return any(info & 0xFFFFFFFF == kind for _, info, _ in row.iter_unpack(file.window.read(start, size)))


MOST = 8 << 20  # bytes that are kept of a segment of constants, if it lies behind the front of a file
# how sections begin that are for unwinding, and nvcc's own: fatbins, which have another reader, and tables of kernels
_OTHERS = (".eh_frame", ".gcc_except_table", ".nv", "__nv_")


class Constants(NamedTuple):
    """What was found in the constants of a file."""

    libraries: frozenset[str] = frozenset()
    release: str = ""  # that the text of a program names
    numpy: int = 0  # the major of NumPy whose C API is used; 0 for none
    texts: tuple[FatbinContainer, ...] = ()  # of PTX, and of cubins outside of fatbins
    all_searched: bool = True  # False if parts of them were not kept, as a second pass takes too long


def search_constants(
    file: ElfFile,
    libraries: bytes,
    release: tuple[bytes, bytes] = (b"", b""),
    numpy: tuple[bytes, bytes] = (b"", b""),
) -> Constants:
    """Search for names that the pattern `libraries` matches, up to the NUL after them, for PTX texts and cubins.

    In programs also for the text that names a release, and for those of users of NumPy.
    """
    pattern = re.compile(libraries)
    part, named = release if file.interpreter else (b"", b"")
    found_release = ""
    names: set[bytes] = set()
    texts: list[FatbinContainer] = []
    of_numpy: set[bytes] = set()
    complete = True
    for start, stop in _ranges(file):
        end = stop if file.window.has(start, stop) else min(stop, start + MOST)
        complete &= end == stop
        if not file.window.has(start, end):
            complete = False
            continue
        data = file.window.read(start, end - start)
        for text in chain(_strings_with(data, b".so."), _strings_with(data, b".so\0")):
            found = pattern.findall(text)
            file.window.budget.spend("entries", len(found))
            names.update(found)
        for text in _strings_with(data, part) if part and not found_release else ():
            if match := re.search(named, text):
                found_release = match[1].decode()
        of_numpy |= {word for word in numpy if word and word in data}
        texts += ptx.embedded(data, file.window.budget, start)
        texts += cubin.embedded(data, start)
    major = (2 if numpy[1] in of_numpy else 1) if numpy[0] in of_numpy and complete else 0
    return Constants(frozenset(name.decode() for name in names), found_release, major, tuple(texts), complete)


def _ranges(file: ElfFile) -> Iterator[tuple[int, int]]:
    """Yield the loaded sections that are not code; without section headers all that is loaded but the names."""
    if file.sections:
        for s in file.sections:
            loaded = s.flags & SHF_ALLOC and not s.flags & SHF_EXECINSTR
            if (
                s.type in {SHT_PROGBITS, SHT_LLVM_OFFLOADING}
                and loaded
                and s.size
                and not s.name.startswith(_OTHERS)
            ):
                yield s.offset, s.offset + s.size
        return
    values = file.dynamic.values
    names = file.dynamic.place(DT_STRTAB) if DT_STRTAB in values else 0
    behind = names + values.get(DT_STRSZ, 0)
    for segment in file.header.segments:
        if segment.type == PT_LOAD:
            first, end = segment.offset, segment.offset + segment.size
            parts = [(first, names), (behind, end)] if first <= names < end else [(first, end)]
            yield from ((start, stop) for start, stop in parts if start < stop)


def _strings_with(data: bytes, word: bytes) -> Iterator[bytes]:
    """Yield the NUL-terminated strings that contain a word."""
    end = 0
    for at in find_all(data, word):
        if at < end:
            continue
        end = data.find(b"\0", at)
        if end < 0:
            return
        yield data[data.rfind(b"\0", 0, at) + 1 : end + 1]
