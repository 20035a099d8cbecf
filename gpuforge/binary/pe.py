"""Read PE files, Windows' DLLs and programs: the DLLs that they import, and where their sections are.

Format: https://learn.microsoft.com/windows/win32/debug/pe-format
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from gpuforge.binary.facts import Section
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError

MAGIC = b"MZ"
# e_machine -> the processor in Windows' platform tags
_MACHINES = {0x14C: "win32", 0x8664: "win_amd64", 0xAA64: "win_arm64"}
_IS_DLL = 0x2000
_IMPORTS, _DELAYED = 1, 13  # data directories
_LONGEST = 512  # bytes of a DLL's name
_TABLE = 1 << 20  # bytes from a directory on that linkers fill with its names
_SECTIONS = 96  # Windows loads no file with more
# CUDA's sections, whose names PE cuts to eight bytes
_WHOLE_NAMES = {".nv_fatb": ".nv_fatbin", "__nv_rel": "__nv_relfatbin"}


class PeFile(NamedTuple):
    """The facts of one PE file. Names of DLLs are in lower case: Windows does not tell the cases apart."""

    file: str
    size: int
    machine: str  # "win_amd64"; "" for one that no wheel is for
    is_dll: bool
    imports: tuple[str, ...] = ()
    delayed: tuple[str, ...] = ()  # that are loaded when a function of theirs is first called
    sections: tuple[Section, ...] = ()

    @property
    def name(self) -> str:
        """The file's name without its folder, in lower case."""
        return self.file.rpartition("/")[2].lower()

    @property
    def is_module(self) -> bool:
        """Whether Python imports it."""
        return self.name.endswith(".pyd")


class _Headers(NamedTuple):
    machine: int
    flags: int
    base: int  # the address that the file prefers
    directories: tuple[tuple[int, int], ...]  # (RVA, size)
    sections: tuple[tuple[str, int, int, int], ...]  # name, RVA, offset and bytes in the file

    def place(self, rva: int) -> tuple[int, int]:
        """Return the offset of an address in memory, and that of its section's end. Raises MalformedError."""
        for _, start, offset, size in self.sections:
            if start <= rva < start + size:
                return offset + rva - start, offset + size
        raise MalformedError.of(f"address 0x{rva:x} is in no section")


def _headers(window: Window) -> _Headers | None:
    """Return the headers; None for a program of DOS, or of another system of that time."""
    if window.size < 0x40:
        return None
    (at,) = struct.unpack("<I", window.read(0x3C, 4))
    if at + 24 > window.size or window.read(at, 4) != b"PE\0\0":
        return None
    machine, sections, optional, flags = struct.unpack("<HH12xHH", window.read(at + 4, 20))
    start = at + 24
    magic = window.read(start, 2)
    try:
        wide = {b"\x0b\x01": False, b"\x0b\x02": True}[magic]
    except KeyError:
        raise MalformedError.of(f"its optional header has the unknown number {magic.hex()}") from None
    base = (
        struct.unpack("<Q", window.read(start + 24, 8))[0]
        if wide
        else struct.unpack("<I", window.read(start + 28, 4))[0]
    )
    (count,) = struct.unpack("<I", window.read(start + (108 if wide else 92), 4))
    first = start + (112 if wide else 96)
    count = min(count, 16, max(0, (start + optional - first) // 8))
    directories = tuple(struct.iter_unpack("<II", window.read(first, 8 * count)))
    if sections > _SECTIONS:
        raise MalformedError.of(f"it has {sections:,} sections, and Windows loads {_SECTIONS} at most")
    window.budget.spend("entries", sections)
    rows = struct.iter_unpack("<8sIIII16x", window.read(start + optional, 40 * sections))
    return _Headers(machine, flags, base, directories, tuple(_section(window, row) for row in rows))


def _section(window: Window, row: tuple[bytes, int, int, int, int]) -> tuple[str, int, int, int]:
    name, memory, rva, size, offset = row
    size = min(size, memory or size)
    if size and offset + size > window.size:
        raise MalformedError.of(f"it ends at byte {window.size}, before {offset + size}")
    text = name.rstrip(b"\0").decode("latin-1")
    return _WHOLE_NAMES.get(text, text), rva, offset, size


def tables(window: Window) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file in which its lists of DLLs usually are. Raises MalformedError, MissedError."""
    headers = _headers(window)
    for number in (_IMPORTS, _DELAYED):
        if headers and number < len(headers.directories) and headers.directories[number][0]:
            start, end = headers.place(headers.directories[number][0])
            yield start, min(end, start + _TABLE)


def read(window: Window, file: str) -> PeFile | None:
    """Return the facts of a file; None if it is none of Windows.

    Raises MalformedError for a broken file, MissedError for a part that was not kept.
    """
    headers = _headers(window)
    if headers is None:
        return None
    return PeFile(
        file,
        window.size,
        _MACHINES.get(headers.machine, ""),
        bool(headers.flags & _IS_DLL),
        tuple(dict.fromkeys(_names(window, headers, _IMPORTS, "<12xI4x", 0))),
        tuple(dict.fromkeys(_names(window, headers, _DELAYED, "<II24x", headers.base))),
        tuple(Section(name, offset, size) for name, _, offset, size in headers.sections),
    )


def _names(window: Window, headers: _Headers, number: int, form: str, base: int) -> Iterator[str]:
    """Yield the DLLs of a directory: a table of descriptors that ends with an empty one.

    Old linkers write addresses into the table of delayed DLLs, not RVAs (`grAttrs` is 0), which `base` makes RVAs.
    """
    if number >= len(headers.directories) or not headers.directories[number][0]:
        return
    at, end = headers.place(headers.directories[number][0])
    step = struct.calcsize(form)
    while True:
        if at + step > end:
            raise MalformedError.of("its table of DLLs has no end")
        *attributes, rva = struct.unpack(form, window.read(at, step))
        if not rva:
            return
        window.budget.spend("entries", 1)
        start, stop = headers.place(rva if not attributes or attributes[0] & 1 else rva - base)
        name = window.text(start, min(stop, start + _LONGEST)).lower()
        window.budget.spend("names", len(name))
        yield name
        at += step
