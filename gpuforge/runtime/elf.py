"""Reads a shared library like the loader, without loading it: its NEEDED libraries, search paths and symbols.

Format: https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

from .document import open_file

_LOAD, _DYNAMIC = 1, 2  # p_type
_SYMTAB, _DYNSYM = 2, 11  # sh_type
_FUNCTIONS = frozenset({2, 10})  # STT_FUNC, STT_GNU_IFUNC
_NULL, _NEEDED, _STRTAB, _STRSZ, _SONAME, _RPATH, _RUNPATH = 0, 1, 5, 10, 14, 15, 29  # d_tag
MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "riscv64": 243}  # e_machine
# of `.nv.info`: a value of two bytes with its size, and the bytes; EIATTR_KPARAM_INFO and the later one
_SVAL, _KPARAM_INFO, _KPARAM_INFO_V2 = 4, 0x17, 0x45
LONGEST = 1 << 16  # bytes of a string
MOST = 64 << 20  # bytes of a table


class NotReadable(Exception):  # noqa: N818  a fact about a file, for the reader to judge
    """The file is not a library for this kind of machine, or is damaged; the message has the reason."""


@dataclass(frozen=True)
class Dynamic:
    """The dynamic section of a library; `search` are its RUNPATH's entries, or else its RPATH's, as written.

    An RPATH (`first`) is searched before LD_LIBRARY_PATH, a RUNPATH after it.
    """

    path: Path
    soname: str
    needed: tuple[str, ...]
    search: tuple[str, ...]
    first: bool = False


def read_dynamic(path: Path) -> Dynamic:
    """Read a library's dynamic section; raises NotReadable, and OSError if the file cannot be opened."""
    with open_file(path) as stream:
        return _File(stream).dynamic(path)


def read_string(path: str | os.PathLike[str], symbol: str) -> str | None:
    """Return the text at an exported symbol, or at one of a program, which exports none; None if there is none.

    Raises NotReadable and OSError.
    """
    with open_file(path) as stream:
        file = _File(stream)
        found = (
            at for table in (_DYNSYM, _SYMTAB) for name, at in file.symbols(table) if name == symbol and at
        )
        address = next(found, None)
        return None if address is None else file.text(file.offset(address))


def imports(path: str | os.PathLike[str]) -> frozenset[str]:
    """Return the symbols that a library takes from others, without their versions; raises NotReadable and OSError."""
    with open_file(path) as stream:
        return frozenset(name for name, address in _File(stream).symbols() if not address)


def defines(path: str | os.PathLike[str], symbols: Sequence[str], *, functions: bool = False) -> bool:
    """Return whether a library exports one of these symbols, or with `functions` one that is a function.

    It is fast for large libraries that have none: their strings are searched before any symbol is read. Raises
    NotReadable, and OSError.
    """
    with open(path, "rb") as stream:
        return _File(stream).defines(symbols, _FUNCTIONS if functions else None)


def parameter_sizes(cubin: bytes, kernel: str) -> tuple[int, ...] | None:
    """Return the size of each parameter of a kernel in bytes, as its machine code lists them; None for other code."""
    if cubin[:6] != b"\x7fELF\x02\x01":
        return None
    section = f".nv.info.{kernel}\0".encode()
    try:
        (start,) = struct.unpack_from("<Q", cubin, 40)
        size, count, names = struct.unpack_from("<HHH", cubin, 58)
        rows = [struct.unpack_from("<I20xQQ", cubin, start + number * size) for number in range(count)]
        for name, offset, length in rows:
            if cubin.startswith(section, rows[names][1] + name):
                return listed_sizes(cubin[offset : offset + length])
    except (IndexError, struct.error):
        pass
    return None


def listed_sizes(info: bytes) -> tuple[int, ...] | None:
    """Return the sizes in a section `.nv.info.<kernel>`; see `gpuforge.binary.kernels`. Raises struct.error."""
    sizes, at = {}, 0
    while at + 4 <= len(info):
        kind, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if kind == _SVAL:
            if attribute in {_KPARAM_INFO, _KPARAM_INFO_V2}:
                _, number, _, size = struct.unpack_from("<IHHI", info, at)
                sizes[number] = size >> 18 if attribute == _KPARAM_INFO else size & 0xFFFF
            at += value
    return tuple(sizes[number] for number in sorted(sizes)) if sorted(sizes) == [*range(len(sizes))] else None


class _File:
    """A 64-bit little-endian ELF file, read piece by piece."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = os.fstat(stream.fileno()).st_size
        head = self._read(0, 64)
        if head[:4] != b"\x7fELF":
            raise NotReadable("it is not an ELF file")
        if head[4:6] != b"\x02\x01":
            raise NotReadable("it is not a 64-bit little-endian ELF file")
        (machine,) = struct.unpack_from("<H", head, 18)
        if machine != MACHINES.get(os.uname().machine, machine):
            raise NotReadable(f"it is for another architecture than {os.uname().machine}")
        phoff, self._shoff = struct.unpack_from("<QQ", head, 32)
        phentsize, phnum, self._shentsize, self._shnum = struct.unpack_from("<HHHH", head, 54)
        if phnum and phentsize < 56:
            raise NotReadable("its program headers are damaged")
        table = self._read(phoff, phentsize * phnum)
        #: (type, offset, address, size in the file) of each segment
        self._segments = []
        for number in range(phnum):
            kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", table, number * phentsize)
            self._segments.append((kind, offset, address, size))

    def dynamic(self, path: Path) -> Dynamic:
        found = next(((offset, size) for kind, offset, _, size in self._segments if kind == _DYNAMIC), None)
        if found is None:
            raise NotReadable("it is not a shared library")
        table = struct.iter_unpack("<qQ", self._read(found[0], found[1] // 16 * 16))
        entries = list(takewhile(lambda entry: entry[0] != _NULL, table))
        single = dict(entries)  # the last one of a repeated tag counts, as for the loader
        strings, size = self.offset(single.get(_STRTAB, 0)), single.get(_STRSZ, 0)

        def text(at: int) -> str:
            if at >= size:
                raise NotReadable("it is damaged: a string lies outside of its table")
            return self.text(strings + at)

        search = text(single[tag]) if (tag := _RUNPATH if _RUNPATH in single else _RPATH) in single else ""
        return Dynamic(
            path,
            text(single[_SONAME]) if _SONAME in single else "",
            tuple(text(value) for tag, value in entries if tag == _NEEDED),
            tuple(entry for entry in search.split(":") if entry),
            first=tag == _RPATH,
        )

    def defines(self, names: Sequence[str], kinds: frozenset[int] | None) -> bool:
        """Return whether one of these names is among the exported symbols of some kinds, None for all."""
        for table, size, strings, length in self._tables(_DYNSYM):
            places = {at - strings for name in names for at in self._places(f"{name}\0", strings, length)}
            if places and any(
                name in places and section and (kinds is None or info & 15 in kinds)
                for name, info, _, section, _, _ in struct.iter_unpack(
                    "<IBBHQQ", self._read(table, size // 24 * 24)
                )
            ):
                return True
        return False

    def _places(self, text: str, start: int, length: int) -> Iterator[int]:
        """Yield the offsets of a text in the file; as linkers let names share their ends, any may be a name's."""
        with mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            end = min(start + length, len(data))
            while (start := data.find(text.encode(), start, end)) >= 0:
                yield start
                start += 1

    def symbols(self, kind: int = _DYNSYM) -> Iterator[tuple[str, int]]:
        """Yield the dynamic symbols, or those of another table, with their addresses, 0 for those of other files."""
        for table, size, strings, length in self._tables(kind):
            texts = self._read(strings, length)
            for name, _, _, section, value, _ in struct.iter_unpack(
                "<IBBHQQ", self._read(table, size // 24 * 24)
            ):
                text = texts[name : texts.find(b"\0", name)].decode("utf-8", "replace")
                yield text, value if section else 0

    def _tables(self, section_type: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the place of the symbols of a table and their strings in the file: offset, size, offset, size."""
        sections = self._read(self._shoff, self._shentsize * self._shnum)
        if self._shnum and self._shentsize < 64:
            raise NotReadable("its section headers are damaged")
        rows = [struct.unpack_from("<IIQQQQI", sections, n * self._shentsize) for n in range(self._shnum)]
        for _, kind, _, _, offset, size, link in rows:
            if kind == section_type and link < len(rows):
                yield offset, size, rows[link][4], rows[link][5]

    def offset(self, address: int) -> int:
        """Return the offset in the file of an address of the loaded library."""
        for kind, offset, start, size in self._segments:
            if kind == _LOAD and start <= address < start + size:
                return int(offset + address - start)
        raise NotReadable("it is damaged: an address lies in no segment")

    def text(self, offset: int) -> str:
        data, end, _ = self._read(offset, min(LONGEST, max(self._size - offset, 0))).partition(b"\0")
        if not end:
            raise NotReadable("it is damaged: a string has no end")
        return data.decode("utf-8", "replace")

    def _read(self, offset: int, size: int) -> bytes:
        if size > MOST:
            raise NotReadable("it is damaged: a table is larger than any library's")
        if offset + size > self._size:
            raise NotReadable("it is cut short")
        self._stream.seek(offset)
        data = self._stream.read(size)
        if len(data) < size:
            raise NotReadable("it is cut short")
        return data
