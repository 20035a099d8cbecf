"""Reads cubins: ELF files of machine code for one GPU architecture.

The place of the toolkit's version is not documented; it was compared with `cuobjdump -elf` for CUDA 11.3 to 13.2. Up to
12.9 it is an attribute of `.nv.info` (EIATTR_CUDA_API_VERSION: 129 for 12.9), later the text of a note of ptxas.
"""

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from gpuforge.binary.elf.file import SHT_NOBITS, SHT_NOTE, ElfFile, read_names, read_rows
from gpuforge.binary.elf.header import EM_CUDA, MAGIC, Header, read_header
from gpuforge.binary.facts import ElfObject, FatbinContainer, FatbinEntry, Section
from gpuforge.binary.window import Budget, Window, find_all
from gpuforge.errors import MalformedError
from gpuforge.runtime.arch import Arch

_RELEASE = re.compile(rb"Cuda compilation tools, release (\d{1,4}\.\d{1,4})\b")
_TARGET = re.compile(rb"(?:^|\s)-arch[ =](sm_\d{2,4}[af]?)(?!\w)")
_SHT_CUDA_INFO = 0x70000000
_API_VERSION = b"\x04\x37\x04\x00"  # EIFMT_SVAL, EIATTR_CUDA_API_VERSION, 4 bytes
_KERNEL = ".text."  # with its name: the section of a kernel's machine code
_TOOL = ".note.nv.tkinfo"
_LONGEST_NOTE = 1 << 16  # bytes
_PRINTABLE = bytes(range(0x20, 0x7F))
_TEXT = 5  # characters of a text in a note; fewer may be a number


def read(elf: ElfFile, *, wheel: str = "", file: str = "") -> ElfObject:
    """Read a cubin that is a file. Raises MalformedError, and MissedError if a range was not kept."""
    window, header = elf.window, elf.header
    sizes, notes = _sections(window, header)
    comment = next((_texts(window.read(*note)) for note in reversed(notes) if note[1] < _LONGEST_NOTE), ())
    return ElfObject(
        wheel,
        file,
        window.size,
        header.bits,
        header.machine,
        header.type,
        comment=comment,
        sections=tuple([Section(sys.intern(name), 0, size) for name, size in sizes.items()]),
        containers=(container(header, window.size, comment),),
    )


def container(header: Header, size: int, comment: Sequence[str] = ()) -> FatbinContainer:
    """Describe a cubin of `size` bytes by its ELF header and the texts in its note of ptxas, if any.

    Up to ABI version 7 the low byte of e_flags is the architecture, and 0x800 means "a". From version 8 on it is the
    second byte, and 0x8 means "a" in CUDA 12 only. Families, and all variants of CUDA 13, are in the options in
    `.note.nv.tkinfo`, which every cubin of version 8 has.
    """
    flags, new = header.flags, header.abi_version >= 8
    arch, specific = ((flags >> 8) & 0xFF, flags & 0x8) if new else (flags & 0xFF, flags & 0x800)
    target, release = options(tuple(comment))
    named = Arch.parse(target) if target else Arch(arch // 10, arch % 10, "a" if specific else "")
    return FatbinContainer(0, size, (FatbinEntry("cubin", named, "", size, size, toolkit=release),))


@lru_cache(maxsize=256)  # thousands of files have the same ones
def options(note: tuple[str, ...]) -> tuple[str, str]:
    """Return the target ("sm_100f") and the toolkit ("13.0") in the texts of a note of ptxas, "" for none."""
    texts = [text.encode() for text in note]
    target, release = (
        next((m[1].decode() for t in texts if (m := p.search(t))), "") for p in (_TARGET, _RELEASE)
    )
    return target, release


def is_empty(image: bytes) -> bool:
    """Return whether a cubin has no section `.text.<kernel>`; False for bytes that are not ELF."""
    return image[:4] == MAGIC and b"\0.text." not in image


def embedded(data: bytes, start: int = 0) -> tuple[FatbinContainer, ...]:
    """Describe the cubins that lie as they are in bytes at `start` of a file, as clang's OpenMP offloading leaves them.

    They are one container: each has all target regions of the library. Those without a function do not count.
    """
    found: dict[Arch, FatbinEntry] = {}
    first = end = 0
    for at in find_all(data, MAGIC):
        if at < end:
            continue
        with suppress(MalformedError):
            elf = ElfFile(Window.of(data[at:]))  # its program headers are after its sections
            stop = at + elf.header.section_offset + elf.header.section_count * elf.header.section_size
            if elf.header.machine == EM_CUDA and not is_empty(data[at:stop]):
                (container,) = read(elf).containers
                found.update({entry.arch: entry for entry in container.entries})
                first, end = first or at, stop
    entries = tuple(found[arch] for arch in sorted(found))
    return (FatbinContainer(start + first, end - first, entries),) if entries else ()


def toolkit(image: bytes, budget: Budget | None = None) -> str:
    """Return the toolkit ("12.9") that wrote a cubin; "" if it is unknown."""
    window = Window.of(image, budget)
    try:
        rows = read_rows(window, read_header(window))
    except MalformedError:
        return ""
    for _, kind, _, start, length, _, _ in rows:
        if start + length > len(image):
            continue
        if kind == SHT_NOTE and (release := _RELEASE.search(image, start, start + length)):
            return release[1].decode()
        if kind == _SHT_CUDA_INFO:
            at = image.find(_API_VERSION, start, start + length)
            if at >= 0 and at + 8 <= len(image):
                version = int.from_bytes(image[at + 4 : at + 8], "little")
                return f"{version // 10}.{version % 10}" if 50 <= version < 200 else ""
    return ""


def _sections(window: Window, header: Header) -> tuple[dict[str, int], list[tuple[int, int]]]:
    """Return the bytes of all sections of a kind together, and offset and size of each note of ptxas.

    Each kernel has half a dozen sections, and a wheel may have thousands of cubins.
    """
    rows = read_rows(window, header)
    names = read_names(window, header, rows)
    kernels = {name[len(_KERNEL) :] for name in names if name.startswith(_KERNEL)}
    sizes: dict[str, int] = {}
    notes = []
    for name, (_, kind, _, start, size, _, _) in zip(names, rows, strict=True):
        if size and kind != SHT_NOBITS:
            at = name.find(".", 1)
            while at >= 0 and name[at + 1 :] not in kernels:
                at = name.find(".", at + 1)
            plain = name if at < 0 else name[:at]  # ".nv.info" of ".nv.info._Z5scalePf"
            sizes[plain] = sizes.get(plain, 0) + size
            if name == _TOOL:
                notes.append((start, size))
    return sizes, notes


@lru_cache(maxsize=256)  # thousands of cubins were written by one tool with the same options
def _texts(note: bytes) -> tuple[str, ...]:
    """Return the texts between the numbers of a note."""
    parts = note.split(b"\0")[:-1]
    texts = (part[len(part.rstrip(_PRINTABLE)) :].decode() for part in parts)
    return tuple(dict.fromkeys(text for text in texts if len(text) >= _TEXT))
