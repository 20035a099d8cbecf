"""PE files as link.exe lays them out: one section for the tables of DLLs, and others with content."""

import struct
from collections.abc import Mapping, Sequence

_RVA, _OFFSET = 0x1000, 0x400
_MACHINES = {"win32": 0x14C, "win_amd64": 0x8664, "win_arm64": 0xAA64}


def dll(
    *imports: str,
    delayed: Sequence[str] = (),
    machine: str = "win_amd64",
    sections: Mapping[str, bytes] | None = None,
    by_address: bool = False,
    program: bool = False,
) -> bytes:
    """Return a DLL. `by_address`: the table of delayed DLLs has addresses, as before Visual C++ 7."""
    wide, base = machine != "win32", 0x400000
    data = bytearray(b"\0" * 8)

    def put(content: bytes) -> int:
        data.extend(content)
        return _RVA + len(data) - len(content)

    places = {name: put(name.encode() + b"\0") for name in dict.fromkeys(imports)}
    names = [places[name] for name in imports]
    first = put(b"".join(struct.pack("<IIIII", 0, 0, 0, name, 0) for name in names) + bytes(20))
    later = [put(name.encode() + b"\0") + base * by_address for name in delayed]
    second = put(b"".join(struct.pack("<II24x", not by_address, name) for name in later) + bytes(32))
    directories = [(0, 0)] * 16
    directories[1] = (first, 20 * len(names) + 20)
    if delayed:
        directories[13] = (second, 32 * len(later) + 32)
    optional = (
        struct.pack("<H22xQ76xI", 0x20B, base, 16) if wide else struct.pack("<H26xI60xI", 0x10B, base, 16)
    ) + b"".join(struct.pack("<II", *each) for each in directories)
    contents = {".rdata": bytes(data), **(sections or {})}
    rows, bodies, rva, offset = b"", b"", _RVA, _OFFSET
    for name, content in contents.items():
        rows += struct.pack("<8sIIII16x", name.encode(), len(content), rva, len(content), offset)
        bodies += content
        rva, offset = rva + (len(content) + 0xFFF) // 0x1000 * 0x1000, offset + len(content)
    flags = 0x22 | (0 if program else 0x2000)
    header = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40) + b"PE\0\0"
    header += struct.pack("<HHIIIHH", _MACHINES[machine], len(contents), 0, 0, 0, len(optional), flags)
    return (header + optional + rows).ljust(_OFFSET, b"\0") + bodies
