"""Which parts of an ELF file its reader uses: what to keep of a file that is unpacked in a stream."""

import contextlib
from itertools import pairwise

from gpuforge.binary.elf.dynamic import DT_STRSZ, DT_STRTAB, DT_VERDEF, DT_VERNEED, NAMES, Dynamic
from gpuforge.binary.elf.header import PF_R, PF_X, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NOTE, Header
from gpuforge.binary.elf.patterns import CONSTANTS
from gpuforge.binary.elf.strings import LONGEST
from gpuforge.binary.window import MissedError, Window

_SLACK = 1 << 16  # bytes kept around what is known to be used
_PAGE = 1 << 16  # bytes; the most that linkers align segments to
_SMALL = 4 << 20  # bytes of a segment that is kept whole

Range = tuple[int, int]  # start and stop


def outline(window: Window, header: Header) -> list[Range]:
    """Return the ranges that the reader uses, as far as the bytes that were kept tell.

    Once the dynamic section was kept, the tables that it refers to are in the list, too. Raises MalformedError.
    """
    ranges = _by_headers(window.size, header)
    with contextlib.suppress(MissedError):
        ranges += _by_dynamic(Dynamic(window, header), header)
    return [
        (max(0, start), min(stop, window.size)) for start, stop in ranges if start < min(stop, window.size)
    ]


def front(header: Header, limit: int) -> list[Range]:
    """Return the ranges of the first `limit` bytes that are not code: names, versions, constants, debug info.

    All of it where the first segment has both code and the rest, as linkers once did.
    """
    segments = sorted((s.offset, s.size, s.flags) for s in header.segments if s.type == PT_LOAD)
    if segments and segments[0][2] & PF_X:
        segments = []
    ranges, at = [], 0
    for offset, size, _ in (s for s in segments if s[2] & PF_X):
        ranges.append((at, min(offset, limit)))
        at = max(at, offset + size)
    return [(start, stop) for start, stop in [*ranges, (at, limit)] if start < stop]


def _by_headers(size: int, header: Header) -> list[Range]:
    small = (PT_DYNAMIC, PT_INTERP, PT_NOTE)
    ranges = [(s.offset, s.offset + s.size) for s in header.segments if s.type in small]
    ranges.append((size - _SLACK, size))  # the sections' names, mostly
    loaded = sorted((s.offset, s.offset + s.size) for s in header.segments if s.type == PT_LOAD)[-4:]
    ranges += [(end, end + _SLACK) for _, end in loaded]  # .comment, the first of what is not loaded
    # what lies before a segment that patchelf appended ends with the sections' names
    ranges += [(start - _SLACK, start) for (_, end), (start, _) in pairwise(loaded) if start - end > _PAGE]
    # small ones whole: patchelf's, with what it moved
    ranges += [(start, end) for start, end in loaded if end - start <= _SMALL]
    # the segment that .rodata begins, where code has a segment of its own
    constants = (s for s in header.segments if s.type == PT_LOAD and s.flags == PF_R and s.offset)
    ranges += [(s.offset, s.offset + min(s.size, CONSTANTS)) for s in constants]
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
    tables = (header.file_offset(values[tag]) for tag in (DT_VERNEED, DT_VERDEF) if tag in values)
    return [*ranges, *((start, start + _SLACK) for start in tables)]
