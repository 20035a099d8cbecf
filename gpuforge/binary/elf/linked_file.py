"""What the dynamic linker reads of a file for the host, and nothing else; for packaging and for what is fetched."""

from pathlib import Path
from typing import NamedTuple

from gpuforge.binary.elf import versions
from gpuforge.binary.elf.file import ElfFile, opened
from gpuforge.binary.elf.header import EM_CUDA
from gpuforge.binary.elf.symbols import dynamic_symbols
from gpuforge.binary.facts import VersionNeed


class LinkedFile(NamedTuple):
    """The dynamic section, the symbol versions and the dynamic symbols of a file."""

    soname: str = ""
    needed: tuple[str, ...] = ()
    runpath: tuple[
        str, ...
    ] = ()  # the folders of DT_RUNPATH, or of DT_RPATH, which the loader ignores beside it
    has_rpath: bool = False  # it has DT_RPATH
    version_needs: tuple[VersionNeed, ...] = ()
    defined: frozenset[str] = frozenset()
    undefined: frozenset[str] = frozenset()  # without weak ones: without these it does not load or work


def read(path: Path) -> LinkedFile | None:
    """Read a file; None for what is not ELF or is machine code for a GPU. Raises MalformedError."""
    with opened(path) as file:
        return None if file is None or file.header.machine == EM_CUDA else _read(file)


def _read(file: ElfFile) -> LinkedFile:
    dynamic = file.dynamic
    symbols = [symbol for symbol in dynamic_symbols(file) if symbol.name and not symbol.local]
    folders = (dynamic.runpath or dynamic.rpath or "").split(":")
    return LinkedFile(
        dynamic.soname,
        dynamic.needed,
        tuple(folder for folder in folders if folder),
        dynamic.rpath is not None,
        tuple(versions.needs(file)),
        frozenset(symbol.name for symbol in symbols if symbol.defined),
        frozenset(symbol.name for symbol in symbols if not (symbol.defined or symbol.weak)),
    )
