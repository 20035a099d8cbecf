"""Reads an ELF file into an `ElfObject`, and lists the ranges that this takes, to keep while a file is unpacked."""

import contextlib
from itertools import pairwise

from gpuforge.binary import cubin
from gpuforge.binary.elf import linked_file, symbols
from gpuforge.binary.elf.file import ElfFile, build_id, isa, system, version_needs
from gpuforge.binary.elf.header import (
    DT_GNU_HASH,
    DT_HASH,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERNEED,
    EM_CUDA,
    LONGEST,
    NAMES,
    PF_R,
    PF_X,
    PT_DYNAMIC,
    PT_GNU_RELRO,
    PT_GNU_STACK,
    PT_INTERP,
    PT_LOAD,
    PT_NOTE,
    PT_TLS,
    Dynamic,
    Header,
)
from gpuforge.binary.elf.symbols import MOST, Patterns
from gpuforge.binary.facts import PYTHON_MODULE, ElfObject
from gpuforge.binary.window import MissedError, Window
from gpuforge.errors import MalformedError


def read(window: Window, sought: Patterns, *, wheel: str = "", file: str = "") -> ElfObject:
    """Read the ELF file in `window`, except the fatbin containers in it; PTX texts are containers, too.

    Raises MalformedError for bytes that contradict each other, MissedError for a range that was not kept.
    """
    found = ElfFile(window)
    header = found.header
    if header.machine == EM_CUDA:  # the dynamic linker does not read it
        return cubin.read(found, wheel=wheel, file=file)
    if header.versions != {1}:
        raise MalformedError.of(f"its header has the version {max(header.versions)}, and glibc takes only 1")
    if not header.is_usual:
        raise MalformedError.of(
            "its header has bytes after its ABI, or program headers of a size, that glibc refuses"
        )
    broken = linked_file.problems(found)
    try:
        return _linked(found, sought, wheel, file)._replace(broken=broken)
    except MalformedError:
        if not broken or header.loaded_end > window.size:  # the file was truncated
            raise
        return ElfObject(wheel, file, window.size, header.bits, header.machine, header.type, broken=broken)


def _linked(elf: ElfFile, sought: Patterns, wheel: str, file: str) -> ElfObject:
    header, dynamic = elf.header, elf.dynamic
    markers = symbols.markers(elf, sought)
    found = symbols.search_constants(elf, sought.libraries, sought.release, sought.numpy)
    stack, tls = header.segment(PT_GNU_STACK), header.segment(PT_TLS)
    return ElfObject(
        wheel=wheel,
        file=file,
        size=elf.window.size,
        bits=header.bits,
        machine=header.machine,
        type=header.type,
        dynamic=dynamic.entries,
        soname=dynamic.soname,
        needed=dynamic.needed,
        auxiliary=dynamic.auxiliary,
        rpath=dynamic.rpath,
        runpath=dynamic.runpath,
        interpreter=elf.interpreter,
        version_needs=tuple(version_needs(elf)),
        stack=stack.flags if stack else None,
        page=header.page,
        relro=header.segment(PT_GNU_RELRO) is not None,
        isa=isa(elf),
        isa_used=isa(elf, used=True),
        system=system(elf),
        build_id=build_id(elf),
        comment=elf.comment,
        sections=elf.sections,
        markers=markers,
        producers=symbols.compilers(elf, sought, markers),
        mentions=found.libraries,
        release=found.release,
        numpy=found.numpy if PYTHON_MODULE in markers else 0,
        all_searched=found.all_searched,
        symbols=symbols.names_of(elf, sought.symbols, markers),
        bindings=symbols.bindings(elf),
        static_tls=symbols.static_tls(elf),
        tls_align=tls.align if tls else 0,
        containers=found.texts,
        order=header.order,
        os_abi=header.os_abi,
        abi_version=header.abi_version,
        behind=max(0, elf.window.size - _end(elf)),
    )


def _end(elf: ElfFile) -> int:
    """Return the offset behind all segments and sections, and the table of sections."""
    header = elf.header
    segments, sections = ([s.offset + s.size for s in parts] for parts in (header.segments, elf.sections))
    return max(header.section_offset + header.section_size * header.section_count, 0, *segments, *sections)


_SLACK = 1 << 16  # bytes kept around a range that is used
_PAGE = 1 << 16  # bytes; the largest alignment of segments by linkers
_SMALL = 4 << 20  # bytes of a segment or hash table that is kept whole
_TABLES = (DT_HASH, DT_GNU_HASH, DT_SYMTAB, DT_STRTAB, DT_VERNEED)

Range = tuple[int, int]  # start and stop


def outline(window: Window, header: Header) -> list[Range]:
    """Return the ranges that the reader uses, as far as the bytes in `window` show them. Raises MalformedError.

    The tables of the dynamic section are included once that section is in `window`.
    """
    ranges = _by_headers(window.size, header)
    with contextlib.suppress(MissedError):
        ranges += _by_dynamic(Dynamic(window, header), header)
    return [
        (max(0, start), min(stop, window.size)) for start, stop in ranges if start < min(stop, window.size)
    ]


def front(header: Header, limit: int) -> list[Range]:
    """Return the ranges of the first `limit` bytes that are not code: names, versions, constants, debug info.

    The whole range if segments have both code and data, as older linkers write them.
    """
    segments = sorted((s.offset, s.size, s.flags) for s in header.segments if s.type == PT_LOAD)
    if segments and (segments[0][2] & PF_X or _has_mixed_segments(header)):
        segments = []
    ranges, at = [], 0
    for offset, size, _ in (s for s in segments if s[2] & PF_X):
        ranges.append((at, min(offset, limit)))
        at = max(at, offset + size)
    return [(start, stop) for start, stop in [*ranges, (at, limit)] if start < stop]


def _has_mixed_segments(header: Header) -> bool:
    """Return whether no segment has constants alone: they lie behind the code, in a segment that patchelf may move."""
    return not any(s.type == PT_LOAD and s.flags == PF_R for s in header.segments)


def _by_headers(size: int, header: Header) -> list[Range]:
    small = (PT_DYNAMIC, PT_INTERP, PT_NOTE)
    ranges = [(s.offset, s.offset + s.size) for s in header.segments if s.type in small]
    ranges.append((size - _SLACK, size))  # usually the sections' names
    loaded = sorted((s.offset, s.offset + s.size) for s in header.segments if s.type == PT_LOAD)[-4:]
    ranges += [(end, end + _SLACK) for _, end in loaded]  # .comment, the first section that is not loaded
    # patchelf appends segments: before them are the names of the sections
    ranges += [(start - _SLACK, start) for (_, end), (start, _) in pairwise(loaded) if start - end > _PAGE]
    # small ones whole, as patchelf moves tables to its own segments
    ranges += [(start, end) for start, end in loaded if end - start <= _SMALL]
    # constants behind the code, as older linkers write them
    ranges += [(end - _SMALL, end) for start, end in loaded if not start]
    if _has_mixed_segments(header):
        mixed = (s for s in header.segments if s.type == PT_LOAD and s.flags & PF_X and s.offset)
        ranges += [(s.offset + max(0, s.size - MOST), s.offset + s.size) for s in mixed]
    # .rodata is the first section of such a segment
    constants = (s for s in header.segments if s.type == PT_LOAD and s.flags == PF_R and s.offset)
    ranges += [(s.offset, s.offset + min(s.size, MOST)) for s in constants]
    if header.section_count:
        end = header.section_offset + header.section_count * header.section_size
        ranges.append((header.section_offset - _SLACK, end))
    return ranges


def _by_dynamic(dynamic: Dynamic, header: Header) -> list[Range]:
    ranges, values = [], dynamic.values
    if DT_STRTAB in values and DT_STRSZ in values:
        start, size = header.file_offset(values[DT_STRTAB]), values[DT_STRSZ]
        if size <= LONGEST:
            ranges.append((start, start + size))
        else:
            names = (value for tag, value in dynamic.entries if tag in NAMES)
            ranges += [(start + name, start + name + _SLACK) for name in names if name < size]
    if DT_VERNEED in values:
        start = header.file_offset(values[DT_VERNEED])
        ranges.append((start, start + _SLACK))
    for place in (values[tag] for tag in (DT_HASH, DT_GNU_HASH) if tag in values):
        behind = [values[tag] for tag in _TABLES if values.get(tag, 0) > place]
        start = header.file_offset(place)
        ranges.append((start, start + min(min(behind, default=place + _SLACK) - place, _SMALL)))
    return ranges
