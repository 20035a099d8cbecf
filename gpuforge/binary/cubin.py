"""Tell which CUDA toolkit wrote a cubin: the ELF image of machine code for one GPU architecture.

Neither place is documented; both were compared with `cuobjdump -elf` for CUDA 11.3 to 13.2:
up to 12.9 an attribute of `.nv.info` (EIATTR_CUDA_API_VERSION: 129 for 12.9), later a note of ptxas in words.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from gpuforge.binary.facts import Entry

LONGEST = 1 << 16  # stored bytes of an image that is worth unpacking for it
_LONGEST_UNPACKED = 1 << 20
BUDGET = 16 << 20  # unpacked bytes that are looked at in one file
_RELEASE = re.compile(rb"Cuda compilation tools, release (\d{1,4}\.\d{1,4})\b")
_TARGET = re.compile(rb"(?:^|\s)-arch[ =](sm_\d{1,4}[af]?)(?!\w)")
_SHT_NOTE, _SHT_CUDA_INFO = 7, 0x70000000
_API_VERSION = b"\x04\x37\x04\x00"  # EIFMT_SVAL, EIATTR_CUDA_API_VERSION, 4 bytes


def is_empty(image: bytes) -> bool:
    """Say whether a cubin has no machine code: no section `.text.<kernel>`. One that was not unpacked may have some."""
    return image[:4] == b"\x7fELF" and b"\0.text." not in image


def toolkit(image: bytes) -> str:
    """Return the toolkit ("12.9") of a cubin, or "" where it does not say."""
    if image[:4] != b"\x7fELF" or len(image) < 64:
        return ""
    (offset,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    if size < 64 or offset + size * count > len(image):
        return ""
    for index in range(count):
        kind, _, _, start, length = struct.unpack_from("<IQQQQ", image, offset + index * size + 4)
        if start + length > len(image):
            continue
        if kind == _SHT_NOTE and (release := _RELEASE.search(image, start, start + length)):
            return release[1].decode()
        if kind == _SHT_CUDA_INFO:
            at = image.find(_API_VERSION, start, start + length)
            if at >= 0 and at + 8 <= len(image):
                (version,) = struct.unpack_from("<I", image, at + 4)
                return f"{version // 10}.{version % 10}" if 50 <= version < 200 else ""
    return ""


@lru_cache(maxsize=256)  # of thousands of files the same
def told(note: tuple[str, ...]) -> tuple[str, str]:
    """Return the target ("sm_100f") and the toolkit that the words of a cubin's note of ptxas name, "" for none."""
    texts = [text.encode() for text in note]
    found = (next((m[1] for t in texts if (m := p.search(t))), b"") for p in (_TARGET, _RELEASE))
    target, toolkit = (each.decode() for each in found)
    return target, toolkit


def unpacked(entry: Entry, stored: bytes) -> bytes:
    """Return the image that is stored as these bytes; nothing for one that is too large or cannot be unpacked."""
    if entry.compression == "none":
        return stored
    if not 64 <= entry.size <= _LONGEST_UNPACKED:
        return b""
    # each is loaded by the first image that was packed with it: most wheels need one of them, many none
    if entry.compression == "lz4":
        import lz4.block  # noqa: PLC0415

        try:
            return bytes(lz4.block.decompress(stored, uncompressed_size=entry.size))
        except (lz4.block.LZ4BlockError, ValueError):
            return b""
    import zstandard  # noqa: PLC0415

    try:
        return zstandard.ZstdDecompressor().decompress(stored, max_output_size=entry.size)
    except zstandard.ZstdError:
        return b""
