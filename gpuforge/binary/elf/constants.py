"""Searches the constants of ELF files for names of libraries, as for dlopen, and for PTX texts, as of Halide."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from gpuforge.binary import ptx
from gpuforge.binary.elf.dynamic import DT_STRSZ, DT_STRTAB
from gpuforge.binary.elf.file import ElfFile
from gpuforge.binary.elf.header import PT_LOAD
from gpuforge.binary.elf.sections import SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS
from gpuforge.binary.facts import FatbinContainer
from gpuforge.binary.search import find_all

MOST = 8 << 20  # bytes that are kept of a segment of constants, if it lies behind the front of a file
# how sections begin that are for unwinding, and nvcc's own: fatbins, which have another reader, and tables of kernels
_OTHERS = (".eh_frame", ".gcc_except_table", ".nv", "__nv_")


class Constants(NamedTuple):
    """What was found in the constants of a file."""

    libraries: frozenset[str] = frozenset()
    release: str = ""  # that the text of a program names
    texts: tuple[FatbinContainer, ...] = ()  # of PTX
    all_searched: bool = True  # False if parts of them were not kept, as a second pass takes too long


def search(file: ElfFile, libraries: bytes, release: tuple[bytes, bytes] = (b"", b"")) -> Constants:
    """Search for names that the pattern `libraries` matches, up to the NUL after them, and for PTX texts.

    In programs also for the text that names a release.
    """
    pattern = re.compile(libraries)
    part, named = release if file.interpreter else (b"", b"")
    found_release = ""
    names: set[bytes] = set()
    texts: list[FatbinContainer] = []
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
        texts += ptx.embedded(data, file.window.budget, start)
    return Constants(frozenset(name.decode() for name in names), found_release, tuple(texts), complete)


def _ranges(file: ElfFile) -> Iterator[tuple[int, int]]:
    """Yield the loaded sections that are not code; without section headers all that is loaded but the names."""
    if file.sections:
        for s in file.sections:
            loaded = s.type == SHT_PROGBITS and s.flags & SHF_ALLOC and not s.flags & SHF_EXECINSTR
            if loaded and s.size and not s.name.startswith(_OTHERS):
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
