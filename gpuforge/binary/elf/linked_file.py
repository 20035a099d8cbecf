"""Reads linked files for the host as the dynamic linker sees them, for packaging and for packages of an index."""

from pathlib import Path
from typing import NamedTuple

from gpuforge.binary.elf import segments, versions
from gpuforge.binary.elf.file import ElfFile, opened
from gpuforge.binary.elf.header import EM_CUDA
from gpuforge.binary.elf.symbols import dynamic_symbols
from gpuforge.binary.facts import BrokenSegment, VersionNeed


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
        return None if file is None or file.header.machine == EM_CUDA else _read(file)


def _read(file: ElfFile) -> LinkedFile:
    dynamic = file.dynamic
    symbols = [symbol for symbol in dynamic_symbols(file) if symbol.name and not symbol.local]
    search_path = dynamic.rpath if dynamic.runpath is None else dynamic.runpath
    return LinkedFile(
        dynamic.soname,
        dynamic.needed,
        search_path or (),
        dynamic.rpath is not None,
        tuple(versions.needs(file)),
        frozenset(symbol.name for symbol in symbols if symbol.defined),
        frozenset(symbol.name for symbol in symbols if not (symbol.defined or symbol.weak)),
        segments.problems(file),
    )
