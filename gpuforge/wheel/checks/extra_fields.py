"""Checks the extra fields of a local header: ZIP64 sizes, and fields that must not be there twice.

Format: APPNOTE.TXT, 4.5. PyPI accepts ZIP64 fields of these lengths: warehouse/utils/zipfiles.py.
"""

import contextlib
import struct
import zlib
from collections.abc import Iterator

from gpuforge.wheel.checks.refusal import Refusal

_ZIP64, _UNICODE_PATH = 0x0001, 0x7075
_ZIP64_LENGTHS = (0, 8, 16, 24, 28)
_IN_ZIP64 = 0xFFFFFFFF


def problem(extra: bytes, method: int, packed: int, size: int) -> Refusal | None:
    """Return the problem of the extra fields of a header with these sizes, without the member."""
    seen = set()
    try:
        for kind, value in _fields(extra):
            if kind in seen:
                refused = "doubled field" if kind in {_ZIP64, _UNICODE_PATH} else "repeated field"
                return Refusal(refused, facts={"field": kind})
            seen.add(kind)
            if kind == _ZIP64 and not _sound(value, method, packed, size):
                return Refusal("ZIP64 field", facts={"size": len(value)})
            if kind == _UNICODE_PATH:
                value[5:].decode()
                if any(byte < 0x20 or byte == 0x7F for byte in value[5:]):
                    return Refusal("other name's characters", facts={"name": value[5:].decode()})
    except UnicodeDecodeError:
        return Refusal("doubled field", case="name")
    except ValueError:
        return Refusal("doubled field", case="cut")
    return None


def second_name(extra: bytes, name: bytes) -> bytes:
    """Return the name in the field for a UTF-8 name, if the field is about this name; else b""."""
    with contextlib.suppress(ValueError):
        for kind, value in _fields(extra):
            if kind == _UNICODE_PATH and value[1:5] == struct.pack("<I", zlib.crc32(name)):
                return value[5:]
    return b""


def sizes(extra: bytes, packed: int, size: int) -> tuple[int, int]:
    """Return the packed and the unpacked size, from the ZIP64 field if there is one."""
    for kind, value in _fields(extra):
        if kind == _ZIP64 and len(value) >= 8:
            first = struct.unpack_from("<Q", value)[0]
            size = first if size == _IN_ZIP64 else size
            packed = struct.unpack_from("<Q", value, 8)[0] if len(value) >= 16 else first
    return packed, size


def _sound(value: bytes, method: int, packed: int, size: int) -> bool:
    if len(value) == 0:
        return _IN_ZIP64 not in {packed, size}
    if len(value) == 8:
        return method == 0
    return len(value) in _ZIP64_LENGTHS


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start < len(extra):
        if len(extra) < start + 4:
            raise ValueError("extra fields that end in the middle of one")
        kind, length = struct.unpack_from("<HH", extra, start)
        start += 4 + length
        if start > len(extra):
            raise ValueError("extra fields that end in the middle of one")
        yield kind, extra[start - length : start]
