"""The least that reading a wheel's binaries can take: inflate every ELF file and archive once with isal, and drop it.

python bench/floor.py WHEEL
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

from isal import isal_zlib

PACKED, UNPACKED = 1 << 18, 1 << 21  # bytes in hand at once: the fastest of those tried
BINARIES = (b"\x7fELF", b"!<arch>\n")  # what files begin with that the audit reads whole


def inflate(file: int, info: zipfile.ZipInfo) -> None:
    """Inflate one member if it is a binary."""
    header = os.pread(file, 30, info.header_offset)
    start = (
        info.header_offset
        + 30
        + int.from_bytes(header[26:28], "little")
        + int.from_bytes(header[28:30], "little")
    )
    head = os.pread(file, 512, start)
    if info.compress_type == zipfile.ZIP_STORED:
        if head.startswith(BINARIES):
            for position in range(start, start + info.compress_size, UNPACKED):
                os.pread(file, UNPACKED, position)
        return
    if not isal_zlib.decompressobj(wbits=-15).decompress(head, 8).startswith(BINARIES):
        return
    inflater = isal_zlib.decompressobj(wbits=-15)
    end = start + info.compress_size
    for position in range(start, end, PACKED):
        pending = os.pread(file, min(PACKED, end - position), position)
        while pending and not inflater.eof:
            inflater.decompress(pending, UNPACKED)
            pending = inflater.unconsumed_tail


def main() -> None:
    """Inflate them all, the largest first."""
    path = Path(sys.argv[1])
    with zipfile.ZipFile(path) as archive:
        infos = sorted(
            (i for i in archive.infolist() if i.compress_size), key=lambda i: i.file_size, reverse=True
        )
    file = os.open(path, os.O_RDONLY)
    for info in infos:
        inflate(file, info)


if __name__ == "__main__":
    main()
