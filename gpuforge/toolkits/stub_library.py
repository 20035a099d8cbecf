"""Writes a shared library of functions that only return a number, to link with, or to load instead of the real one.

NVIDIA's wheels of CUDA 13 have no stub of the driver, and a machine that fetches a toolkit need not have a linker. The
format: https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html
"""

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuforge.binary.elf.file import version_hash
from gpuforge.datafile import load, rows
from gpuforge.errors import UsageError

_PAGE = 0x10000  # the largest of both machines
_HEADER, _SEGMENT, _SECTION, _SYMBOL = 64, 56, 64, 24  # bytes of one entry
_SEGMENTS = 4
_MACHINES: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "x86_64": (62, lambda answer: b"\xb8" + answer + b"\xc3"),  # mov eax, answer; ret
    # ldr w0, [the word behind the two instructions]; ret
    "aarch64": (183, lambda answer: struct.pack("<II", 0x18000040, 0xD65F03C0) + answer),
}


class _Section(NamedTuple):
    """One section: its name, type, flags, content, and the further fields of its header."""

    name: str
    kind: int
    flags: int
    content: bytes
    link: int = 0
    info: int = 0
    entry: int = 0


def write(path: Path, soname: str, functions: Sequence[str], machine: str, answer: int) -> None:
    """Write a library with this SONAME, whose functions all return `answer` (32 bits).

    The same arguments give the same bytes. Raises UsageError for a machine other than x86_64 and aarch64.
    """
    if machine not in _MACHINES:
        raise UsageError.of(
            f"no stub of {soname} for machine {machine!r}", hint=f"known: {', '.join(_MACHINES)}"
        )
    number, code = _MACHINES[machine]
    names = sorted(set(functions))
    strings, places = _strings([soname, *names])
    text = code(struct.pack("<I", answer & 0xFFFFFFFF))
    start = _HEADER + _SEGMENTS * _SEGMENT
    symbols_at = start + len(hashed := _hashed(names))
    strings_at = symbols_at + _SYMBOL * (len(names) + 1)
    text_at = _aligned(strings_at + len(strings))
    symbols = [bytes(_SYMBOL)]
    symbols += [struct.pack("<IBBHQQ", places[name], 0x12, 0, 4, text_at, len(text)) for name in names]
    dynamic_at = _aligned(text_at + len(text))
    entries = {
        14: places[soname],
        4: start,
        5: strings_at,
        6: symbols_at,
        10: len(strings),
        11: _SYMBOL,
        0: 0,
    }
    sections = [
        _Section(".hash", 5, 2, hashed, link=2, entry=4),
        _Section(".dynsym", 11, 2, b"".join(symbols), link=3, info=1, entry=_SYMBOL),
        _Section(".dynstr", 3, 2, strings),
        _Section(".text", 1, 6, text),
        _Section(".dynamic", 6, 3, b"".join(struct.pack("<QQ", *each) for each in entries.items()), 3, 0, 16),
    ]
    segments = [  # type, flags, offset, address, size
        (1, 5, 0, 0, text_at + len(text)),
        (1, 6, dynamic_at, dynamic_at + _PAGE, len(sections[-1].content)),
        (2, 6, dynamic_at, dynamic_at + _PAGE, len(sections[-1].content)),
        (0x6474E551, 6, 0, 0, 0),  # the stack is not executable
    ]
    path.write_bytes(_file(number, sections, segments, [start, symbols_at, strings_at, text_at, dynamic_at]))


def _file(
    machine: int,
    sections: Sequence[_Section],
    segments: Sequence[tuple[int, int, int, int, int]],
    offsets: Sequence[int],
) -> bytes:
    """Return the file: header, segments, sections at their offsets, and the table of sections."""
    names, places = _strings([*(each.name for each in sections), ".shstrtab"])
    image = bytearray()
    for section, offset in zip(sections, offsets, strict=True):
        image += bytes(offset - offsets[0] - len(image)) + section.content
    names_at = offsets[0] + len(image)
    table_at = _aligned(names_at + len(names))
    rows = [bytes(_SECTION)]
    for each, offset in zip(sections, offsets, strict=True):
        address = offset + _PAGE if each.flags & 1 else offset
        facts = (address, offset, len(each.content), each.link, each.info, 8, each.entry)
        rows.append(struct.pack("<IIQQQQIIQQ", places[each.name], each.kind, each.flags, *facts))
    rows.append(struct.pack("<IIQQQQIIQQ", places[".shstrtab"], 3, 0, 0, names_at, len(names), 0, 0, 1, 0))
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    sizes = (_HEADER, _SEGMENT, len(segments), _SECTION, len(rows), len(rows) - 1)
    header += struct.pack("<HHIQQQI6H", 3, machine, 1, 0, _HEADER, table_at, 0, *sizes)
    loads = [
        struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, size, size, _PAGE if kind == 1 else 8)
        for kind, flags, offset, address, size in segments
    ]
    padding = bytes(table_at - names_at - len(names))
    return b"".join([header, *loads, image, names, padding, *rows])


def _strings(texts: Sequence[str]) -> tuple[bytes, dict[str, int]]:
    """Return a string table, padded to eight bytes, and the offset of each text in it."""
    table, places = bytearray(1), {}
    for text in texts:
        places[text] = len(table)
        table += text.encode() + b"\0"
    return bytes(table) + bytes(-len(table) % 8), places


def _hashed(names: Sequence[str]) -> bytes:
    """Return the hash table of symbols 1, 2 …"""
    count = len(names) or 1
    buckets, chains = [0] * count, [0] * (len(names) + 1)
    for number, name in enumerate(names, start=1):
        bucket = version_hash(name) % count
        chains[number], buckets[bucket] = buckets[bucket], number
    table = struct.pack(f"<{2 + count + len(chains)}I", count, len(chains), *buckets, *chains)
    return table + bytes(-len(table) % 8)


def _aligned(offset: int) -> int:
    return offset + -offset % 8


class Driver(NamedTuple):
    """A library that only a machine with a driver has: see `data/drivers.toml`."""

    library: str  # as in a manifest's `needs`: "OpenCL"
    names: str  # a regular expression for its functions
    no_device: int  # what they return without a device


@cache
def drivers() -> Mapping[str, Driver]:
    """Return the drivers' libraries by their names without a version: "libOpenCL.so"."""
    found = rows(Driver, load(__file__, "drivers.toml")["driver"])
    return {f"lib{each.library}.so": each for each in found}


SONAME = "libcuda.so.1"
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE, the result of each function of the stub
_DECLARED = re.compile(
    r"^\s*(?:__CUDA_DEPRECATED\s+)?CUresult\s+CUDAAPI\s+(cu(?!WGL)[A-Z]\w*)\s*\(", re.MULTILINE
)
# The names that programs are linked with: the latest version of a function, and its form for per-thread streams.
_DEFINED = re.compile(
    r"^\s*#\s*define\s+cu[A-Z]\w*\s+(?:__CUDA_API_(PTDS|PTSZ)\()?(cu[A-Z]\w*)\)?\s*$", re.MULTILINE
)


def write_driver_stub(tree: Path, machine: str) -> None:
    """Write `lib/stubs/libcuda.so` with the functions of the toolkit's own headers; an existing one stays.

    A toolkit without cuda.h gets no stub.
    """
    stub = tree / "lib" / "stubs" / "libcuda.so"
    names = sorted(set(driver_functions(tree / "include")))
    if stub.exists() or not names:
        return
    stub.parent.mkdir(parents=True, exist_ok=True)
    write(stub, SONAME, names, machine, NO_DEVICE)


def driver_functions(include: Path) -> Iterator[str]:
    """Yield the functions that the driver's headers in a folder declare."""
    for name in ("cuda.h", "cudaProfiler.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"):
        header = include / name
        text = header.read_text(encoding="utf-8", errors="replace") if header.is_file() else ""
        yield from _DECLARED.findall(text)
        for form, function in _DEFINED.findall(text):
            yield function
            if form:
                yield f"{function}_{form.lower()}"
