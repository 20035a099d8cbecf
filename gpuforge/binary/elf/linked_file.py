"""Checks whether the segments of a linked file can be mapped: patchelf and strip have broken some before.

The rules are those of the gABI ("Program Loading") and of glibc's elf/dl-load.c; the kernel reads PT_INTERP. Broken by
patchelf: https://github.com/NixOS/patchelf/issues/446 and 528, https://github.com/pypa/auditwheel/issues/716.
"""

from array import array
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from gpuforge.binary.elf.file import (
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_NOBITS,
    SHT_PROGBITS,
    ElfFile,
    opened,
    version_needs,
)
from gpuforge.binary.elf.header import (
    DT_FILTER,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_NEEDED,
    DT_RELA,
    DT_RELASZ,
    DT_RPATH,
    DT_RUNPATH,
    DT_SONAME,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERDEF,
    DT_VERNEED,
    DT_VERSYM,
    EM_AARCH64,
    EM_CUDA,
    EM_X86_64,
    PF_R,
    PF_W,
    PF_X,
    PROGRAM,
    PT_DYNAMIC,
    PT_GNU_RELRO,
    PT_INTERP,
    PT_LOAD,
    PT_TLS,
    RELOCATABLE,
    Header,
    Segment,
)
from gpuforge.binary.elf.symbols import dynamic_symbols, symbol_count
from gpuforge.binary.facts import BrokenSegment, VersionNeed
from gpuforge.errors import MalformedError

_PAGE = 1 << 12  # bytes; no Linux has smaller pages
_HEADER = 52  # bytes of the smaller ELF header
_LARGEST_PAGE = 1 << 16  # linkers round the end of PT_GNU_RELRO up to it
_NAMES = {PT_DYNAMIC: "PT_DYNAMIC", PT_INTERP: "PT_INTERP", PT_GNU_RELRO: "PT_GNU_RELRO", PT_TLS: "PT_TLS"}
_STRINGS = "the table of strings"
_TEXTS = {
    DT_NEEDED: "NEEDED",
    DT_SONAME: "SONAME",
    DT_RPATH: "RPATH",
    DT_RUNPATH: "RUNPATH",
    DT_FILTER: "FILTER",
}
_DT_INIT, _DT_FINI, _DT_PLTREL, _DT_RELAENT, _DT_PLTRELSZ, _DT_PLTGOT = 12, 13, 20, 9, 2, 3
_DT_RELR, _DT_RELRENT = 36, 37
_ARRAYS = {25: 27, 26: 28}  # DT_INIT_ARRAY, DT_FINI_ARRAY and their sizes
_DT_RELACOUNT = 0x6FFFFFF9
_DT_TEXTREL, _DF_TEXTREL = 22, 4
# the flags by which glibc binds all functions when it loads a file, before it seals their table
_AT_ONCE = {24: ~0, DT_FLAGS: 8, DT_FLAGS_1: 1}
_SHT_RELA, _SHF_TLS = 4, 0x400
_WRITTEN = (".data", ".bss")
_MOST_RELOCATIONS = 1 << 20  # bytes of a table
# the types that glibc knows, by machine (sysdeps/*/dl-machine.h, elf_machine_rela)
_RELOCATIONS = {
    EM_X86_64: {0, 1, 2, 5, 6, 7, 8, 10, 16, 17, 18, 32, 33, 36, 37, 38},
    EM_AARCH64: {0, 256, 257, 258, 1024, 1025, 1026, 1027, 1028, 1029, 1030, 1031, 1032},
}
# the kinds of relocations by which a table gets the address of code
_RELATIVE = {EM_X86_64: (8, 37), EM_AARCH64: (1027, 1032)}
_FARTHEST = 1 << 40  # bytes that a file takes in memory; no system maps many times more
_MOST_TLS = 1 << 32  # bytes of thread-local variables, which each thread takes
# tables and functions that the dynamic linker reads or calls, by their addresses, and their sizes
_POINTERS = {
    DT_HASH: ("the hash table (DT_HASH)", 0), DT_GNU_HASH: ("the hash table (DT_GNU_HASH)", 0),
    DT_SYMTAB: ("the table of symbols (DT_SYMTAB)", 0), DT_VERSYM: ("the table of versions (DT_VERSYM)", 0),
    DT_RELA: ("the table of relocations (DT_RELA)", 8), 17: ("the table of relocations (DT_REL)", 18),
    DT_JMPREL: ("the table of relocations (DT_JMPREL)", 2), 36: ("the table of relocations (DT_RELR)", 35),
    _DT_INIT: ("the code of initialization (DT_INIT)", 0), 25: ("the table of initialization (DT_INIT_ARRAY)", 27),
    _DT_FINI: ("the code of the end (DT_FINI)", 0), 26: ("the table of the end (DT_FINI_ARRAY)", 28),
    _DT_PLTGOT: ("the table of functions (DT_PLTGOT)", 0),
}  # fmt: skip
# what glibc asserts, and what it reads without a look whether it is there: a tag, its name, those that lead to it
_VALUES = {_DT_RELAENT: 24, _DT_PLTREL: DT_RELA, _DT_RELRENT: 8}
_REQUIRED = (
    (_DT_RELAENT, "DT_RELAENT", (DT_RELA,)), (_DT_RELRENT, "DT_RELRENT", (_DT_RELR,)),
    (_DT_PLTREL, "DT_PLTREL", (DT_JMPREL,)), (DT_SYMTAB, "DT_SYMTAB", (DT_HASH, DT_GNU_HASH, DT_JMPREL)),
    (DT_VERSYM, "DT_VERSYM", (DT_VERNEED, DT_VERDEF)),
    *((size, f"the size of {name}", (tag,)) for tag, (name, size) in _POINTERS.items() if size),
)  # fmt: skip

SENTENCES = {
    "page": "{0} has address {address:#x} and offset {offset:#x}, which differ modulo its alignment",
    "end": "{0} ends at byte {end}, past the end of the file",
    "size": "{0} is larger in the file than in memory",
    "order": "{0} lies at a lower address than the one before it",
    "overlap": "{0} overlaps the one before it",
    "outside": "{0} lies in no PT_LOAD segment",
    "empty": "{0} lies in headers or behind the part of its segment that is in the file",
    "place": "{0} lies at another place of its segment in the file than in memory",
    "strings": "{0} names no string table",
    "twice": "{0} is there twice, and tools and releases of glibc take one or the other",
    "hidden": "{0} has no size in the file, and older releases of glibc read it all the same",
    "behind strings": "{0} lies past the string table (DT_STRTAB)",
    "end outside": "{0} ends in no PT_LOAD segment",
    "unreadable": "{0} may not be read by the process",
    "unwritable": "{0} lies in a segment that may not be written, and glibc writes to it",
    "code": "{0} lies in a segment that may not be executed",
    "far": "{0} ends at address {end:#x}, farther than systems map",
    "count": "{0} is {value}, and there are only {expected} such relocations",
    "value": "{0} is {value}, and glibc ends the process if it is not {expected}",
    "type": "{0} has a relocation of type {value}, and glibc ends the process if it does not know the type",
    "target": "{0} changes address {address:#x}, where nothing can be written",
    "symbol": "{0} has a relocation by symbol {value}, and there are {expected}",
    "function": "{0} names address {address:#x}, where no code is",
    "left out": "the section {0} lies outside of the relocations that the dynamic section names",
    "not in TLS": "the section {0} has thread-local variables and lies outside of PT_TLS",
    "not mapped": "the section {0} lies in no PT_LOAD segment",
    "not executable": "the section {0} has code and may not be executed",
    "sealed": "{0} lies in PT_GNU_RELRO, and may not be written when the file is loaded",
    "none": "{0} is missing, and glibc needs it",
    "large": "{0} takes {value:,} bytes of each thread",
    "power": "{0} is aligned to {align} bytes, which is not a power of two",
    "apart": "{0} is aligned to {align} bytes, farther than systems map",
    "align": "{0} is aligned to {align} bytes, and glibc refuses what is not whole pages",
}
"""The sentences for the kinds of problems, with placeholders for the part and the facts."""


def problems(file: ElfFile) -> tuple[BrokenSegment, ...]:
    """Return the problems that prevent a file from being loaded as it was linked; none for a relocatable one."""
    header = file.header
    if header.type == RELOCATABLE or not header.segments:
        return ()
    loads = [segment for segment in header.segments if segment.type == PT_LOAD]
    size, first = file.window.size, min((load.address for load in loads), default=0)
    broken = [found for index, load in enumerate(loads) if (found := _of_load(index, load, size, first))]
    for index, (one, other) in enumerate(pairwise(loads), 1):
        if other.address < one.address:
            broken.append(_load(index, "order"))
        elif one.address + one.memory > other.address:
            broken.append(_load(index, "overlap"))
    if broken:  # the other segments are measured by these
        return tuple(broken)
    others = [problem for segment in header.segments if (problem := _of_other(segment, loads))]
    others += _of_dynamic([s for s in header.segments if s.type == PT_DYNAMIC], loads)
    for check in (_of_strings, _of_tables, _of_sections):
        if all(problem.loads for problem in others):
            others += check(file, header, loads)
    return tuple(others)


def _load(index: int, kind: str, **facts: int) -> BrokenSegment:
    return BrokenSegment(f"PT_LOAD {index}", kind, facts)


def _of_load(index: int, load: Segment, size: int, first: int) -> BrokenSegment | None:
    if (load.address - load.offset) % max(load.align, _PAGE):
        return _load(index, "page", address=load.address, offset=load.offset)
    if load.offset + load.size > size:
        return _load(index, "end", end=load.offset + load.size)
    if load.memory < load.size:
        return _load(index, "size")
    if not load.flags & (PF_R | PF_W | PF_X) and load.memory:
        return _load(index, "unreadable")
    if load.address + load.memory > _FARTHEST + first:
        return _load(index, "far", end=load.address + load.memory)
    if load.align > _FARTHEST:
        return _load(index, "apart", align=load.align)
    if load.align % _PAGE:
        return _load(index, "align", align=load.align)
    if load.align & (load.align - 1):
        return _load(index, "power", align=load.align)
    return None


def _of_other(segment: Segment, loads: list[Segment]) -> BrokenSegment | None:
    name = _NAMES.get(segment.type)
    if name is None or not segment.memory:
        return None
    if segment.type == PT_TLS:
        if segment.align & (segment.align - 1):
            return BrokenSegment(name, "power", {"align": segment.align})
        if segment.memory < segment.size:
            return BrokenSegment(name, "size")
        if segment.memory > _MOST_TLS:
            return BrokenSegment(name, "large", {"value": segment.memory})
        if not segment.size:
            return None
        segment = segment._replace(memory=segment.size)  # its zeros are in no PT_LOAD
    room = _LARGEST_PAGE if segment.type == PT_GNU_RELRO else 1
    load = next((m for m in loads if _within(segment, m, room)), None)
    if load is None:
        return BrokenSegment(name, "outside", loads=_in_pages(segment, loads))
    if segment.address - load.address != segment.offset - load.offset:
        return BrokenSegment(name, "place", loads=segment.type != PT_TLS)
    if segment.type in {PT_DYNAMIC, PT_GNU_RELRO} and segment.flags & PF_W > load.flags & PF_W:
        return BrokenSegment(name, "unwritable")
    return None


def _of_dynamic(segments: list[Segment], loads: list[Segment]) -> list[BrokenSegment]:
    """Return the problems of dynamic sections that readers do not agree on; linkers write one, with a size."""
    name = _NAMES[PT_DYNAMIC]
    if len(segments) > 1:
        return [BrokenSegment(name, "twice")]
    empty = (s for s in segments if s.memory and not s.size)
    return [BrokenSegment(name, "hidden") for s in empty if any(_within(s, m, 1) and m.size for m in loads)]


def _within(segment: Segment, load: Segment, room: int) -> bool:
    """Return whether a segment lies in a load, with its end rounded up to `room`."""
    end = load.address + load.memory
    rounded = -(-end // room) * room
    begins = end if room == _LARGEST_PAGE else rounded
    return load.address <= segment.address < begins and segment.address + segment.memory <= rounded


def _in_pages(segment: Segment, loads: list[Segment]) -> bool:
    """Return whether a segment lies in the pages of loads: each is mapped as a whole, and zeros follow what is not."""
    end = segment.address
    start = next((m for m in reversed(loads) if m.address <= end), None)
    if start is None:
        return False
    moved = end - start.address != segment.offset - start.offset
    if segment.type != PT_GNU_RELRO and (moved or start.memory > start.size):
        return False
    for load in loads:
        if load.address // _PAGE * _PAGE <= end:
            end = max(end, -(-(load.address + load.memory) // _PAGE) * _PAGE)
    return end >= segment.address + segment.memory


def _of_strings(file: ElfFile, header: Header, _: list[Segment]) -> tuple[BrokenSegment, ...]:
    """Return the problems of the table of strings with NEEDED and SONAME."""
    values = file.dynamic.values
    if not values:
        return ()
    if DT_STRTAB not in values or DT_STRSZ not in values:
        return (BrokenSegment("the dynamic section", "strings"),)
    start, size = values[DT_STRTAB], values[DT_STRSZ]
    try:
        header.file_offset(start)
    except MalformedError:
        return (BrokenSegment(_STRINGS, "outside"),)
    names = {tag for tag, value in file.dynamic.entries if tag in _TEXTS and value >= size}
    if names:
        return tuple(
            BrokenSegment(_TEXTS[tag], "behind strings", loads=tag == DT_SONAME) for tag in sorted(names)
        )
    try:
        header.file_offset(start + max(size - 1, 0))
    except MalformedError:
        return (BrokenSegment(_STRINGS, "end outside", loads=True),)
    return ()


def _of_tables(file: ElfFile, header: Header, loads: list[Segment]) -> Iterator[BrokenSegment]:
    """Yield what the process cannot read or run, and what glibc asserts (elf/get-dynamic-info.h).

    Code alone need not be readable, and x86 reads what it writes.
    """
    values, dynamic = file.dynamic.values, header.segment(PT_DYNAMIC)
    code = {values.get(tag, 0) for tag in (_DT_INIT, _DT_FINI)}
    tables = {values[tag] for tag in (DT_STRTAB, *_POINTERS) if tag in values} - code
    tables |= {dynamic.address} if dynamic else set()
    for index, load in enumerate(loads):
        inside = any(load.address <= table < load.address + load.memory for table in tables)
        if inside and not load.flags & (PF_R | PF_W):
            yield _load(index, "unreadable")
    for tag, (name, size_tag) in _POINTERS.items():
        start, size = values.get(tag, 0), values.get(size_tag, 0) if size_tag else 1
        if tag not in values or not size or (tag == _DT_PLTGOT and not start):
            continue
        within = [m for m in loads if m.address <= start and start + size <= m.address + m.memory]
        place = start - within[0].address + within[0].offset if within else 0
        if not within:
            yield BrokenSegment(name, "outside")
        elif tag != _DT_PLTGOT and (place < _HEADER or place + size > within[0].offset + within[0].size):
            yield BrokenSegment(name, "empty")
        elif start in code and not within[0].flags & PF_X:
            yield BrokenSegment(name, "code")
        elif tag in (DT_RELA, DT_JMPREL) and header.machine in _RELOCATIONS:
            yield from _of_relocations(name, file, place, size, of_functions=tag == DT_JMPREL)
        elif tag == _DT_RELR and header.bits == 64:
            yield from _of_packed(name, file, place, size)
        elif tag in _ARRAYS and header.machine in _RELOCATIONS:
            yield from _of_array(name, file, range(start, start + size, 8), loads)
    if header.bits == 64:
        yield from _asserted(values)


def _of_relocations(
    name: str, file: ElfFile, start: int, size: int, *, of_functions: bool
) -> Iterator[BrokenSegment]:
    """Yield why glibc ends the process at a table of relocations, if it is at hand and of usual size."""
    size = size // 24 * 24
    if not 0 < size <= _MOST_RELOCATIONS or not file.window.has(start, start + size):
        return
    table = file.window.read(start, size)
    listed = array("I", table)[2::6]
    kinds = set(listed)
    counted = 0 if of_functions else file.dynamic.values.get(_DT_RELACOUNT, 0)
    relative = listed[:counted].count(_RELATIVE[file.header.machine][0])
    if len(listed) >= counted > relative:
        yield BrokenSegment("DT_RELACOUNT", "count", {"value": counted, "expected": relative})
    if unknown := kinds - _RELOCATIONS[file.header.machine]:
        yield BrokenSegment(name, "type", {"value": min(unknown)})
    values, places = file.dynamic.values, array("Q", table)[::3]
    if 0 not in kinds:
        yield from _of_targets(name, file, min(places), max(places))
    symbol, count = max(array("I", table)[3::6]), symbol_count(file)
    if count is not None and symbol >= max(count, 1):
        yield BrokenSegment(name, "symbol", {"value": symbol, "expected": count})
    sealed = file.header.segment(PT_GNU_RELRO)
    at_once = any(values.get(tag, 0) & flag for tag, flag in _AT_ONCE.items())
    if of_functions and not at_once and _is_sealed(sealed, min(places), max(places)):
        yield BrokenSegment("the table of functions that are bound at their first call", "sealed")


def _of_packed(name: str, file: ElfFile, start: int, size: int) -> Iterator[BrokenSegment]:
    """Yield the same of relative relocations in the packed form of DT_RELR (gABI, "Relocation")."""
    size = size // 8 * 8
    if not 0 < size <= _MOST_RELOCATIONS or not file.window.has(start, start + size):
        return
    places, following = [], 0
    for entry in array("Q", file.window.read(start, size)):
        if not entry & 1:
            places.append(entry)
            following = entry + 8
        elif entry > 1:
            places.append(following + 8 * (entry.bit_length() - 2))
        following += 8 * 63 * (entry & 1)
    yield from _of_targets(name, file, min(places), max(places))


def _of_targets(name: str, file: ElfFile, *places: int) -> Iterator[BrokenSegment]:
    values = file.dynamic.values
    into_text = _DT_TEXTREL in values or values.get(DT_FLAGS, 0) & _DF_TEXTREL
    written = [s for s in file.header.segments if s.type == PT_LOAD and (s.flags & PF_W or into_text)]
    for place in places:
        if not any(s.address <= place < s.address + s.memory for s in written):
            yield BrokenSegment(name, "target", {"address": place})


def _asserted(values: Mapping[int, int]) -> Iterator[BrokenSegment]:
    """Yield what glibc asserts of the dynamic section of a file of 64 bits (elf/get-dynamic-info.h)."""
    for tag, name, with_tags in _REQUIRED:
        if tag not in values and not values.keys().isdisjoint(with_tags):
            yield BrokenSegment(name, "none")
        elif values.get(tag, value := _VALUES.get(tag)) != value and value:
            yield BrokenSegment(name, "value", {"value": values[tag], "expected": value})
    most = values.get(DT_RELASZ, 0) // 24
    if values.get(_DT_RELACOUNT, 0) > most:
        yield BrokenSegment("DT_RELACOUNT", "count", {"value": values[_DT_RELACOUNT], "expected": most})


def _of_array(name: str, file: ElfFile, slots: range, loads: list[Segment]) -> Iterator[BrokenSegment]:
    """Yield an entry of a table of functions that leads to no code, if its relocations are at hand.

    glibc calls all entries (elf/dl-init.c). Without a relocation an entry of a library stays as it is in the file.
    """
    values, window = file.dynamic.values, file.window
    start, size = values.get(DT_RELA, 0), values.get(DT_RELASZ, 0) // 24 * 24 if DT_RELA in values else 0
    at = file.header.file_offset(start) if size else 0
    first = file.header.file_offset(slots.start)
    if size > _MOST_RELOCATIONS or not (
        window.has(at, at + size) and window.has(first, first + 8 * len(slots))
    ):
        return
    table = array("Q", window.read(at, size))
    known = {place: number for number, place in enumerate(table[::3]) if place in slots}
    written = array("Q", window.read(first, 8 * len(slots)))
    is_address = file.header.type == PROGRAM or _DT_RELR in values
    for slot, address in zip(slots, written, strict=True):
        if slot in known:
            kind, target = table[3 * known[slot] + 1], table[3 * known[slot] + 2]
            if kind not in _RELATIVE[file.header.machine]:  # a symbol's
                continue
        else:
            target = address if is_address else 0
        if not any(m.flags & PF_X and m.address <= target < m.address + m.memory for m in loads):
            yield BrokenSegment(name, "function", {"address": target})
            return


def _is_sealed(sealed: Segment | None, first: int, last: int) -> bool:
    """Return whether glibc takes the right to write to a part of what is between two addresses (_dl_protect_relro)."""
    if sealed is None:
        return False
    start, end = (each // _PAGE * _PAGE for each in (sealed.address, sealed.address + sealed.memory))
    return start <= last and first < end


def _of_sections(file: ElfFile, header: Header, loads: list[Segment]) -> Iterator[BrokenSegment]:
    """Yield the sections that a process cannot use as they were linked: code has their addresses in it.

    Tables of the dynamic linker are others' work, as patchelf moves them and leaves their sections where they were.
    """
    values, sealed = file.dynamic.values, header.segment(PT_GNU_RELRO)
    tls = header.segment(PT_TLS)
    variables = range(tls.address, tls.address + tls.memory + 1) if tls else range(0)
    is_linked = bool(values)  # a static program applies its relocations itself
    tables = ((DT_RELA, DT_RELASZ), (DT_JMPREL, _DT_PLTRELSZ))
    relocations = [
        range(values[tag], values[tag] + values.get(size, 0)) for tag, size in tables if tag in values
    ]
    for s in file.sections:
        ends = (s.address, s.address + s.memory)
        if s.flags & _SHF_TLS and s.memory and not all(end in variables for end in ends):
            yield BrokenSegment(s.name, "not in TLS")
        used = s.type in (SHT_PROGBITS, SHT_NOBITS, _SHT_RELA)
        if not (used and s.flags & SHF_ALLOC and s.address and s.memory) or (
            s.flags & _SHF_TLS and not s.size
        ):
            continue
        load = next(
            (m for m in loads if m.address <= s.address and s.address + s.memory <= m.address + m.memory),
            None,
        )
        there = s.memory if s.type != SHT_NOBITS else 0
        if load is None:
            yield BrokenSegment(s.name, "not mapped")
        elif there and s.address - load.address + there > load.size:
            yield BrokenSegment(s.name, "empty")
        elif there and s.offset - load.offset != s.address - load.address:
            yield BrokenSegment(s.name, "place")
        elif not (s.flags & SHF_EXECINSTR or load.flags & (PF_R | PF_W)):
            yield BrokenSegment(s.name, "unreadable")
        elif s.flags & SHF_EXECINSTR and not load.flags & PF_X:
            yield BrokenSegment(s.name, "not executable")
        elif s.name in _WRITTEN and _is_sealed(sealed, s.address, s.address + s.memory - 1):
            yield BrokenSegment(s.name, "sealed")
        elif (
            is_linked
            and s.type == _SHT_RELA
            and not any(s.address in table and s.address + s.memory - 1 in table for table in relocations)
        ):
            yield BrokenSegment(s.name, "left out")


class LinkedFile(NamedTuple):
    """The dynamic section, the symbol versions and the dynamic symbols of a file."""

    soname: str = ""
    needed: tuple[str, ...] = ()
    search_path: tuple[str, ...] = ()  # of DT_RUNPATH, or else of DT_RPATH, as the loader takes them
    has_rpath: bool = False  # whether it has DT_RPATH
    version_needs: tuple[VersionNeed, ...] = ()
    defined: frozenset[str] = frozenset()
    undefined: frozenset[str] = frozenset()  # without weak ones, which are optional
    broken: tuple[BrokenSegment, ...] = ()


def read(path: Path) -> LinkedFile | None:
    """Read a file; None for other formats and for cubins. Raises MalformedError."""
    with opened(path) as file:
        return None if file is None or file.header.machine == EM_CUDA else _read_linked(file)


def _read_linked(file: ElfFile) -> LinkedFile:
    dynamic = file.dynamic
    symbols = [symbol for symbol in dynamic_symbols(file) if symbol.name and not symbol.local]
    search_path = dynamic.rpath if dynamic.runpath is None else dynamic.runpath
    return LinkedFile(
        dynamic.soname,
        dynamic.needed,
        search_path or (),
        dynamic.rpath is not None,
        tuple(version_needs(file)),
        frozenset(symbol.name for symbol in symbols if symbol.defined),
        frozenset(symbol.name for symbol in symbols if not (symbol.defined or symbol.weak)),
        problems(file),
    )
