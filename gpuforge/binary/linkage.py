"""What the dynamic linker reads of an ELF file: what it needs, where it looks, which symbols it has and wants."""

from pathlib import Path
from typing import Any, NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

MAGIC = b"\x7fELF"
_CUDA = "EM_CUDA"  # a cubin is ELF, too, and none of the linker's business


class Linkage(NamedTuple):
    """The dynamic section and the dynamic symbols of one file for the host."""

    soname: str = ""
    needed: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    defines: frozenset[str] = frozenset()
    wants: frozenset[str] = frozenset()  # undefined, and not weak: without them it does not load or work


def read(path: Path) -> Linkage | None:
    """Read a file; None for what is not ELF or is machine code for a GPU. Raises ValueError for a damaged one."""
    with path.open("rb") as stream:
        if stream.read(4) != MAGIC:
            return None
        try:
            elf = ELFFile(stream)
            return None if elf["e_machine"] == _CUDA else _read(elf)
        except (ELFError, KeyError, AssertionError) as error:
            raise ValueError(str(error) or type(error).__name__) from error


def _read(elf: ELFFile) -> Linkage:
    names: dict[str, list[str]] = {"soname": [], "needed": [], "runpath": [], "rpath": []}
    segments = [segment for segment in elf.iter_segments() if isinstance(segment, DynamicSegment)]
    tag: Any  # has an attribute with the string that it points to, called like its kind
    for tag in (tag for segment in segments for tag in segment.iter_tags()):
        kind = str(tag.entry.d_tag).removeprefix("DT_").lower()
        if kind in names:
            names[kind].append(getattr(tag, kind))
    defines, wants = set(), set()
    for symbol in _symbols(elf, segments):
        binding = symbol.entry.st_info.bind
        if not symbol.name or binding == "STB_LOCAL":
            continue
        if symbol.entry.st_shndx != "SHN_UNDEF":
            defines.add(symbol.name)
        elif binding != "STB_WEAK":
            wants.add(symbol.name)
    folders = ":".join(names["runpath"] or names["rpath"]).split(":")
    return Linkage(
        "".join(names["soname"][:1]),
        tuple(names["needed"]),
        tuple(folder for folder in folders if folder),
        frozenset(defines),
        frozenset(wants),
    )


def _symbols(elf: ELFFile, segments: list[DynamicSegment]) -> Any:
    """Return the dynamic symbols, by the hash table where the sections were stripped."""
    section = elf.get_section_by_name(".dynsym")
    if isinstance(section, SymbolTableSection):
        return section.iter_symbols()
    return (symbol for segment in segments for symbol in segment.iter_symbols())
