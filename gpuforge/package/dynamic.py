"""What repair must know of an ELF file: what it needs, where it looks, which symbol versions it wants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from gpuforge.errors import ActionError

_CUDA = "EM_CUDA"  # a cubin is ELF, too, and none of the loader's business


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The dynamic section of one ELF file for the host.

    `runpath` is the list of the folders it is looked for in; `legacy` says that it stands in DT_RPATH.
    """

    needed: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    legacy: bool = False


def read(path: Path) -> Dynamic | None:
    """Read an ELF file; None when it is none, or one for a GPU. Raises ActionError when it is damaged."""
    with path.open("rb") as stream:
        if stream.read(4) != b"\x7fELF":
            return None
        try:
            elf = ELFFile(stream)
            if elf["e_machine"] == _CUDA:
                return None
            return _dynamic(elf)
        except (ELFError, ValueError, KeyError, AssertionError) as error:
            raise ActionError.of(
                f"{path.name} is a damaged ELF file: {error}",
                hint="check the build's linker and `strip` steps",
            ) from error


def read_tree(tree: Path, files: list[Path]) -> dict[PurePosixPath, Dynamic]:
    """Read those of the files of an unpacked wheel that are ELF files for the host, by their names in it."""
    found = ((path, read(path)) for path in files)
    return {PurePosixPath(path.relative_to(tree).as_posix()): elf for path, elf in found if elf is not None}


def symbol_versions(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the symbol versions an ELF file wants, by library: {"libc.so.6": ("GLIBC_2.34",)}."""
    with path.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".gnu.version_r")
        if not isinstance(section, GNUVerNeedSection):
            return {}
        return {
            str(need.name): tuple(str(aux.name) for aux in wanted) for need, wanted in section.iter_versions()
        }


def _dynamic(elf: ELFFile) -> Dynamic:
    needed: list[str] = []
    paths: dict[str, str] = {}
    for segment in elf.iter_segments():
        if not isinstance(segment, DynamicSegment):
            continue
        tag: Any  # has the attributes needed, runpath, rpath, each when it is of that kind
        for tag in segment.iter_tags():
            if tag.entry.d_tag == "DT_NEEDED":
                needed.append(tag.needed)
            elif tag.entry.d_tag == "DT_RUNPATH":
                paths["DT_RUNPATH"] = tag.runpath
            elif tag.entry.d_tag == "DT_RPATH":
                paths["DT_RPATH"] = tag.rpath
    legacy = "DT_RPATH" in paths
    text = paths.get("DT_RUNPATH", paths.get("DT_RPATH", ""))  # the loader ignores DT_RPATH beside DT_RUNPATH
    return Dynamic(tuple(needed), tuple(entry for entry in text.split(":") if entry), legacy)
