"""ELF files whose tables have far more in them than their bytes."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from audit_samples import elf, wheel

from hostile.attack import attack

_LONG = "lib" + "a" * 60_000 + ".so"
_CONTENT = 289  # where `elf` puts the content of its fourth segment


def _of(folder: Path, data: bytes) -> list[Path]:
    return [wheel(folder, {"demo/a.so": data})]


def with_sections(rows: Sequence[tuple[int, int, int, int, int]], names: bytes, body: bytes = b"") -> bytes:
    """An object whose section headers are `rows` (name, type, flags, offset, size), and `names` behind the header."""
    names_at = 64
    shoff = names_at + len(names) + len(body)
    headers = b"".join(
        struct.pack("<IIQQQQIIQQ", n, k, f, 0, at, size, 0, 0, 1, 0) for n, k, f, at, size in rows
    )
    headers += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    count = len(rows) + 1
    small = count < 0xFF00
    first = b"" if small else struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, count + 1, count, 0, 0, 0)
    header = struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, shoff, 0, 64, 56, 0, 64,
        count if small else 0, count - 1 if small else 0xFFFF,
    )  # fmt: skip
    return b"\x7fELF\x02\x01\x01" + bytes(9) + header + names + body + first + headers


@attack
def needed_of_one_string(folder: Path) -> list[Path]:
    return _of(folder, elf(dynamic=((1, 1),) * 60_000, strings=(_LONG,)))


@attack
def sections_of_one_name(folder: Path) -> list[Path]:
    return _of(folder, with_sections([(1, 1, 0, 0, 0)] * 60_000, b"\0." + b"s" * 60_000 + b"\0"))


@attack
def sections_by_the_million(folder: Path) -> list[Path]:
    return _of(folder, with_sections([(0, 1, 0, 0, 0)] * 1_000_000, b"\0x\0"))


@attack
def version_definitions_of_one_string(folder: Path) -> list[Path]:
    table = b"".join(
        struct.pack("<HHHHIII", 1, 0, 2, 1, 0, 20, 24) + struct.pack("<I", 1) for _ in range(40_000)
    )
    entries = ((0x6FFFFFFC, _CONTENT), (0x6FFFFFFD, 40_000))
    return _of(folder, elf(dynamic=entries, strings=(_LONG,), segment=(0x6474E552, table)))


@attack
def version_needs_of_one_string(folder: Path) -> list[Path]:
    table = b"".join(struct.pack("<HHIII", 1, 1, 1, 0, 16) for _ in range(60_000))
    entries = ((0x6FFFFFFE, _CONTENT), (0x6FFFFFFF, 60_000))
    return _of(folder, elf(dynamic=entries, strings=(_LONG,), segment=(0x6474E552, table)))


@attack
def program_headers_without_end(folder: Path) -> list[Path]:
    count = 0xFFFF
    note = struct.pack("<IIQQQQQQ", 4, 4, 64, 64, 64, 1 << 16, 1 << 16, 4)
    header = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, count, 64, 0, 0)
    return _of(folder, b"\x7fELF\x02\x01\x01" + bytes(9) + header + note * count)


@attack
def loads_for_many_addresses(folder: Path) -> list[Path]:
    """65,000 segments to be searched for the address of each of many tables."""
    count = 0xFFF0
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 1 << 40, 0, 1, 1, 4) * (count - 2)
    end = 64 + 56 * count
    dynamic = struct.pack("<qQ", 5, 1 << 30) + struct.pack("<qQ", 10, 10) + struct.pack("<qQ", 1, 1) * 60_000
    tail = struct.pack("<IIQQQQQQ", 2, 4, end, end, end, len(dynamic), len(dynamic), 8)
    tail += struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, end + len(dynamic), end + len(dynamic), 8)
    header = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, count, 64, 0, 0)
    return _of(folder, b"\x7fELF\x02\x01\x01" + bytes(9) + header + load + tail + dynamic)


@attack
def notes_by_the_million(folder: Path) -> list[Path]:
    notes = struct.pack("<III", 0, 0, 1) * 5_000
    header = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 5_000, 64, 0, 0)
    at = 64 + 56 * 5_000
    table = struct.pack("<IIQQQQQQ", 4, 4, at, at, at, len(notes), len(notes), 4) * 5_000
    return _of(folder, b"\x7fELF\x02\x01\x01" + bytes(9) + header + table + notes)


@attack
def comments_of_one_place(folder: Path) -> list[Path]:
    return _of(folder, elf(sections={".comment": b"\0".join(b"%d" % n for n in range(12_000))}))


@attack
def symbols_that_match_everywhere(folder: Path) -> list[Path]:
    return _of(
        folder,
        elf(
            undefined=(),
            strings=("cudaMalloc" * 6_000,),
            sections={".dynsym": struct.pack("<IBBHQQ", 1, 16, 0, 0, 0, 0) * 40_000},
        ),
    )


@attack
def compressed_sections(folder: Path) -> list[Path]:
    packed = struct.pack("<I4xQQ", 1, 200 << 20, 1) + zlib.compress(bytes(200 << 20), 9)
    rows = [(1, 1, 0x800, 64 + 8, len(packed))] * 500
    return _of(folder, with_sections(rows, b"\0.debug\0", packed))


@attack
def many_damaged_objects(folder: Path) -> list[Path]:
    return [wheel(folder, {f"demo/{n}.so": b"\x7fELF" + bytes(60) for n in range(5_000)})]


@attack
def names_in_constants(folder: Path) -> list[Path]:
    return _of(folder, elf(sections={".rodata": b"libcu" * 800_000 + b".so.\0"}))


@attack
def compiler_paths(folder: Path) -> list[Path]:
    return _of(folder, elf(strings=("/hpc_sdk/" * 100_000 + "x" * 500_000,)))


@attack
def endless_rpath(folder: Path) -> list[Path]:
    needed = tuple(f"libx{n}.so" for n in range(300))
    objects = {f"demo/libx{n}.so": elf(soname=f"libx{n}.so") for n in range(300)}
    return [
        wheel(
            folder,
            {
                "demo/a.so": elf(needed=needed, runpath=":".join(f"$ORIGIN/{n}" for n in range(60_000))),
                **objects,
            },
        )
    ]
