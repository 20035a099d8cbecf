"""Reads the kernels of an image, with the parameters that each declares.

The format of cubins is not published; its fields were compared with `cuobjdump -elf` for CUDA 11.8, 12.4 and 13.0.
A kernel is a function whose symbol has the flag STO_CUDA_ENTRY, and `.nv.info.<its symbol>` lists its parameters. PTX
declares both in text (PTX ISA manual, "Kernel and Function Directives: .entry").
"""

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress

from gpuforge.binary.elf.file import SHT_SYMTAB, read_names, read_rows
from gpuforge.binary.elf.header import StringTable, read_header
from gpuforge.binary.mangled import function
from gpuforge.binary.window import Window
from gpuforge.cuda.kernels import Kernel, Parameter
from gpuforge.errors import MalformedError
from gpuforge.runtime.elf import listed_sizes

Sizes = tuple[int, ...]  # of a kernel's parameters, in bytes

_SYMBOL = struct.Struct("<IBBHQQ")
_STT_FUNC, _STO_CUDA_ENTRY = 2, 0x10
_INFO = ".nv.info."

_NOISE = re.compile(rb'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)  # comments and texts
_ENTRY = re.compile(rb"\.entry\s+([A-Za-z_$%][\w$]*)\s*(?:\(([^()]*)\))?")
_PARAM = re.compile(rb"\.param\b.*?\.([busf]|pred|texref|samplerref|surfref)(8|16|32|64|128)?(x2)?\s+(?:\.ptr\b[^,]*?)?"
                    rb"[\w$%]+\s*(?:\[\s*(\d+)\s*\])?\s*$", re.DOTALL)  # fmt: skip


def of_cubin(image: bytes) -> dict[str, Sizes]:
    """Return the kernels of a cubin by their symbols. Raises MalformedError."""
    window = Window.of(image)
    header = read_header(window)
    rows = read_rows(window, header)
    names = read_names(window, header, rows)
    info = {
        name[len(_INFO) :]: window.read(start, size)
        for name, (_, _, _, start, size, _, _) in zip(names, rows, strict=True)
        if name.startswith(_INFO)
    }
    tables = [row for row in rows if row[1] == SHT_SYMTAB]
    return {
        symbol: _parameters(info.get(symbol, b""))
        for _, _, _, start, size, link, _ in tables
        for symbol in _entries(window, window.read(start, size), rows[link] if link < len(rows) else None)
    }


def _entries(window: Window, table: bytes, strings: tuple[int, ...] | None) -> Iterator[str]:
    if strings is None or len(table) % _SYMBOL.size:
        raise MalformedError.of("its symbol table is damaged")
    found = [
        name
        for name, info, other, section, _, _ in _SYMBOL.iter_unpack(table)
        if info & 15 == _STT_FUNC and other & _STO_CUDA_ENTRY and section
    ]
    yield from StringTable(window, strings[3], strings[4]).texts(found)


def _parameters(info: bytes) -> Sizes:
    """Return the sizes of the parameters in a section `.nv.info.<kernel>`. Raises MalformedError."""
    with suppress(struct.error):  # it is cut short
        if (sizes := listed_sizes(info)) is not None:
            return sizes
    raise MalformedError.of("the list of a kernel's parameters has a gap")


def of_ptx(text: bytes) -> dict[str, Sizes]:
    """Return the kernels of a PTX text by their symbols. Raises MalformedError."""
    found = {}
    for entry in _ENTRY.finditer(_NOISE.sub(b" ", text)):
        declared = [each for each in (entry[2] or b"").split(b",") if each.strip()]
        found[entry[1].decode()] = tuple(map(_size, declared))
    return found


def _size(declaration: bytes) -> int:
    match = _PARAM.search(declaration)
    if match is None:
        raise MalformedError.of(
            f"the PTX declares a parameter as {declaration.decode(errors='replace').strip()!r}"
        )
    kind, bits, pair, count = match.groups()
    unsized = 1 if kind == b"pred" else 8
    element = int(bits) // 8 * (2 if pair else 1) if bits else unsized
    return element * int(count or 1)


def with_types(sizes: Mapping[str, Sizes]) -> tuple[Kernel, ...]:
    """Return kernels with the names and types that their symbols tell, sorted by name."""
    found = (_kernel(symbol, each) for symbol, each in sizes.items())
    return tuple(sorted(found, key=lambda kernel: (kernel.name, kernel.symbol)))


def _kernel(symbol: str, sizes: Sizes) -> Kernel:
    named = function(symbol)
    types = named.parameters if named and named.parameters is not None else ()
    if len(types) != len(sizes):
        types = ("",) * len(sizes)
    return Kernel(symbol, named.name if named else symbol, tuple(map(Parameter, types, sizes)))
