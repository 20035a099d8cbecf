"""Makes relocatable objects and `ar` archives byte by byte, without any compiler."""

import struct
import zlib
from collections.abc import Mapping, Sequence

GCC = b"\0GCC: (Debian 12.2.0-14) 12.2.0\0"
FILE, GLOBAL, WEAK = 4, 1, 2


def relocatable(
    sections: Mapping[str, bytes] | None = None,
    *,
    comment: bytes = GCC,
    code: bytes = b"\xc3",
    wants: Sequence[str] = (),
    gives: Sequence[str] = (),
    weak: Sequence[str] = (),
    sources: Sequence[str] = (),
    compressed: Sequence[str] = (),
    machine: int = 62,
) -> bytes:
    """A 64-bit little-endian object with code, unwind information, symbols and `.comment`."""
    names = [*((n, FILE, 1) for n in sources), *((n, GLOBAL << 4, 1) for n in gives)]
    names += [*((n, GLOBAL << 4, 0) for n in wants), *((n, WEAK << 4, 0) for n in weak)]
    strings, symbols = b"\0", bytes(24)
    for name, info, section in names:
        symbols += struct.pack("<IBBHQQ", len(strings), info, 0, section, 0, 0)
        strings += name.encode() + b"\0"
    # name, type, flags, data, link
    rows = [(".text", 1, 6, code), (".eh_frame", 1, 2, bytes(8))]
    rows += [(".comment", 1, 0x30, comment)] if comment else []
    for name, data in (sections or {}).items():
        packed = struct.pack("<I4xQQ", 1, len(data), 1) + zlib.compress(data)
        rows.append((name, 1, 0x800 if name in compressed else 0, packed if name in compressed else data))
    rows += [(".symtab", 2, 0, symbols), (".strtab", 3, 0, strings)]
    return _laid_out(rows, machine)


def _laid_out(rows: Sequence[tuple[str, int, int, bytes]], machine: int) -> bytes:
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in rows) + b".shstrtab\0"
    body, headers, at = b"", bytes(64), 1
    for index, (name, kind, flags, data) in enumerate([*rows, (".shstrtab", 3, 0, names)]):
        link = index + 2 if kind == 2 else 0  # the table of names follows
        headers += struct.pack("<IIQQQQIIQQ", at, kind, flags, 0, 64 + len(body), len(data), link, 0, 1, 24)
        body += data
        at += len(name) + 1
    count = len(rows) + 2
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack(
        "<HHIQQQIHHHHHH", 1, machine, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, count, count - 1
    )
    return ident + header + body + headers


def archive(members: Mapping[str, bytes], *, style: str = "gnu") -> bytes:
    """An archive by GNU's, BSD's or thin rules, with an index of symbols and long names."""
    table = b"".join(f"{name}/\n".encode() for name in members)
    thin = style == "thin"
    data = b"!<thin>\n" if thin else b"!<arch>\n"
    if style == "bsd":
        data += _member("__.SYMDEF", b"\0\0\0\0")
    else:
        data += _member("/", b"\0\0\0\0") + _member("//", table)
    at = 0
    for name, content in members.items():
        if style == "bsd":
            data += _member(f"#1/{len(name)}", name.encode() + content)
        else:
            data += _member(f"/{at}", content, inside=not thin)
        at += len(name) + 2
    return data


def _member(name: str, content: bytes, *, inside: bool = True) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(content):<10}`\n".encode()
    return header + (content + b"\n" * (len(content) % 2) if inside else b"")
