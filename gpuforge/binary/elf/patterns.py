"""Names that compilers and libraries leave in ELF files; which names are looked for, the caller of the reader says."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuforge.binary.elf.file import ElfFile

CONSTANTS = 8 << 20  # bytes of .rodata that are searched for names of libraries
_PRODUCER = 256  # bytes of debug info: DW_AT_producer is its first string


class SymbolGroup(NamedTuple):
    """Dynamic symbols that are looked for together."""

    name: str
    prefixes: tuple[bytes, ...]  # each name begins with one of them, which is quicker to look for
    pattern: bytes  # of the whole name
    marker: str = ""  # only files with this marker are looked into


class Patterns(NamedTuple):
    """What is looked for in ELF files."""

    markers: tuple[
        tuple[str, bytes], ...
    ] = ()  # a name for it, and how a string of the dynamic section begins
    symbols: tuple[SymbolGroup, ...] = ()
    libraries: bytes = b""  # names of libraries in .rodata, up to the NUL that ends them
    paths: tuple[
        tuple[bytes, bytes], ...
    ] = ()  # a part of a path, and the path; its group 1 is a compiler's version
    producers: tuple[tuple[str, bytes], ...] = ()  # a marker, and DW_AT_producer; its group 1 is the version


def markers(file: ElfFile, patterns: Patterns) -> frozenset[str]:
    """Return the markers of a file."""
    strings = file.dynamic.strings
    return frozenset(name for name, start in patterns.markers if strings.has(b"\0" + start))


def compilers(file: ElfFile, patterns: Patterns, found: frozenset[str]) -> tuple[str, ...]:
    """Return the versions of compilers by a file's debug info, and by paths that patchelf left in its strings.

    `found` are the file's markers.
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


def libraries(file: ElfFile, patterns: Patterns) -> frozenset[str]:
    """Return the libraries that a file's constants name, as far as these were kept: a second pass takes too long."""
    section = file.section(".rodata")
    if section is None or not patterns.libraries:
        return frozenset()
    size = min(section.size, CONSTANTS)
    if not file.window.has(section.offset, section.offset + size):
        return frozenset()
    pattern = re.compile(patterns.libraries)
    texts = _strings_with(file.window.read(section.offset, size), b".so.")
    return frozenset(name.decode() for text in texts for name in pattern.findall(text))


def _strings_with(data: bytes, word: bytes) -> Iterator[bytes]:
    """Yield the NUL-terminated strings that a word is in."""
    at = data.find(word)
    while at >= 0:
        end = data.find(b"\0", at)
        if end < 0:
            return
        yield data[data.rfind(b"\0", 0, at) + 1 : end + 1]
        at = data.find(word, end)
