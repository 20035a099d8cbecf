"""Finds names that compilers and libraries leave in ELF files, by patterns that the caller passes."""

import re
from typing import NamedTuple

from gpuforge.binary.elf.file import ElfFile

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
