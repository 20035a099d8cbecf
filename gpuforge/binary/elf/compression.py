"""Unpacks compressed ELF sections: `SHF_COMPRESSED` (gABI, "Section Compression"), and the older `.zdebug_*`.

A section that is too large by its header is refused before it is unpacked.
"""

import struct
import zlib

from gpuforge.errors import MalformedError

_ZLIB, _ZSTD = 1, 2


def section(stored: bytes, bits: int, order: str, room: int) -> bytes:
    """Return the content of a section with a compression header: `room` bytes at most. Raises MalformedError."""
    layout = struct.Struct(order + ("III" if bits == 32 else "I4xQQ"))
    if len(stored) < layout.size:
        raise MalformedError.of("a compressed section is shorter than its header")
    kind, size, _ = layout.unpack_from(stored)
    return _unpack(kind, stored[layout.size :], size, room)


def zdebug(stored: bytes, room: int) -> bytes:
    """Return the content of a `.zdebug_*` section: `room` bytes at most. Raises MalformedError."""
    if not stored:
        return b""
    if stored[:4] != b"ZLIB" or len(stored) < 12:
        raise MalformedError.of("a .zdebug section does not begin with ZLIB")
    return _unpack(_ZLIB, stored[12:], int.from_bytes(stored[4:12], "big"), room)


def _unpack(kind: int, data: bytes, size: int, room: int) -> bytes:
    if size > room:
        raise MalformedError.of(f"a compressed section would have {size} bytes")
    if kind == _ZLIB:
        found = _inflated(data, size)
    elif kind == _ZSTD:
        found = _zstd(data, size)
    else:
        raise MalformedError.of(f"a section is compressed by the unknown method {kind}")
    if len(found) != size:
        raise MalformedError.of("a compressed section has another size than its header")
    return found


def _inflated(data: bytes, size: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, size + 1)
    except zlib.error as error:
        raise MalformedError.of("a compressed section cannot be unpacked") from error


def _zstd(data: bytes, size: int) -> bytes:
    import zstandard  # noqa: PLC0415  few files have such sections

    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
            return stream.read(size + 1)
    except zstandard.ZstdError as error:
        raise MalformedError.of("a compressed section cannot be unpacked") from error
