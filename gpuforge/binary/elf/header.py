"""Reads the ELF header and the program headers (System V gABI, chapters 4 and 5: https://gabi.xinuos.com)."""

import struct
from functools import cache
from typing import NamedTuple

from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError

MAGIC = b"\x7fELF"
RELOCATABLE, PROGRAM, SHARED = 1, 2, 3  # e_type
EM_X86_64, EM_CUDA = 62, 190
MACHINES = {
    3: "i686", EM_X86_64: "x86_64", 183: "aarch64", 40: "armv7l", 22: "s390x", 21: "ppc64le", 243: "riscv64",
    258: "loongarch64",
}  # fmt: skip
"""Processors by e_machine, as platform tags name them."""
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 3, 4, 0x6474E551, 0x6474E552
PF_X, PF_R = 1, 4
_MOST_SEGMENTS = (1 << 16) // 56  # as in Linux' load_elf_phdrs: 64 KiB
_EXTENDED = 0xFFFF  # of e_shstrndx: the number is in the first section header


class Segment(NamedTuple):
    """A program header."""

    type: int
    flags: int
    offset: int
    address: int
    size: int  # bytes in the file
    memory: int = 0  # bytes in memory
    align: int = 0


class Header(NamedTuple):
    """The ELF header and the program headers."""

    bits: int
    order: str  # struct's byte order: "<" or ">"
    type: int
    machine: int
    section_offset: int
    section_size: int
    section_count: int
    section_names: int  # the number of the section with the names
    segments: tuple[Segment, ...] = ()
    flags: int = 0
    abi_version: int = 0
    os_abi: int = 0

    def segment(self, kind: int) -> Segment | None:
        """Return the first segment of a type."""
        return next((s for s in self.segments if s.type == kind), None)

    def file_offset(self, address: int) -> int:
        """Return the offset in the file of an address in memory. Raises MalformedError."""
        for s in self.segments:
            if s.type == PT_LOAD and s.address <= address < s.address + s.size:
                return address - s.address + s.offset
        raise MalformedError.of(f"address {address:#x} lies in no loaded segment")

    @property
    def page(self) -> int:
        """The smallest alignment of a loaded segment: larger pages cannot map it. 0 without one."""
        return min((s.align for s in self.segments if s.type == PT_LOAD), default=0)

    @property
    def loaded_end(self) -> int:
        """The offset after the last loaded segment."""
        return max((s.offset + s.size for s in self.segments if s.type == PT_LOAD), default=0)


def is_cubin(head: bytes) -> bool:
    """Return whether a file with these first bytes is a cubin."""
    return head[:6] == MAGIC + b"\2\1" and head[18:20] == EM_CUDA.to_bytes(2, "little")


def read_header(window: Window) -> Header:
    """Read the headers. Raises MalformedError, and MissedError if they were not kept."""
    ident = window.read(0, 16)
    if ident[:4] != MAGIC or ident[4] not in (1, 2) or ident[5] not in (1, 2):
        raise MalformedError.of("its first 16 bytes are not an ELF header")
    bits, order = 32 * ident[4], "<>"[ident[5] - 1]
    fields = layout(order + ("HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH"))
    (kind, machine, _, _, phoff, shoff, flags, _, phentsize, phnum, shentsize, shnum, names) = fields.unpack(
        window.read(16, fields.size)
    )
    segments = _segments(window, bits, order, phoff, phentsize, phnum)
    if shoff and (shnum == 0 or names == _EXTENDED):
        first = layout(order + ("20xII12x" if bits == 32 else "32xQI20x"))
        count, index = first.unpack(window.read(shoff, first.size))
        shnum, names = shnum or count, index if names == _EXTENDED else names
    if shnum * shentsize > window.size:
        raise MalformedError.of(f"{shnum} section headers do not fit into it")
    return Header(
        bits,
        order,
        kind,
        machine,
        shoff,
        shentsize,
        shnum if shoff else 0,
        names,
        segments,
        flags,
        *ident[8:6:-1],
    )


@cache
def layout(fields: str) -> struct.Struct:
    """Return the compiled form of a format of `struct`."""
    return struct.Struct(fields)


def _segments(
    window: Window, bits: int, order: str, offset: int, size: int, count: int
) -> tuple[Segment, ...]:
    if not count:
        return ()
    fields = layout(order + ("III4xIIII" if bits == 32 else "IIQQ8xQQQ"))
    if size < fields.size:
        raise MalformedError.of(f"program headers of {size} bytes")
    if count > _MOST_SEGMENTS:
        raise MalformedError.of(f"{count} program headers, and Linux takes {_MOST_SEGMENTS}")
    table = window.read(offset, size * count)
    rows = [fields.unpack_from(table, index * size) for index in range(count)]
    if bits == 32:
        rows = [
            (kind, flags, start, address, length, memory, align)
            for kind, start, address, length, memory, flags, align in rows
        ]
    return tuple(map(Segment._make, rows))
