"""The file of one cache entry: a header for people and tools, a checksum over all of it, and the kernel's bytes.

Layout, little endian: 8 bytes MAGIC · u32 length of the header · header (JSON: the key's fields) · 32 bytes,
the sha256 of the key's digest, the header and the payload · payload, to the end of the file.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

from .cache_key import CacheKey

MAGIC = b"GPUFKC1\n"
_LENGTH = struct.Struct("<I")
_CHECKSUM = 32
_LONGEST_HEADER = 1 << 20


class BadEntryError(ValueError):
    """A file of the cache is not the complete entry of its name; the message has the problem."""


@dataclass(frozen=True)
class CacheEntry:
    """The content of a file of the cache: the key's fields, and the kernel's bytes."""

    fields: dict[str, Any]
    payload: bytes


def encode(key: CacheKey, payload: bytes) -> bytes:
    """Return the bytes of a file with `payload` under `key`."""
    header = json.dumps(key.fields(), sort_keys=True).encode()
    return b"".join(
        (MAGIC, _LENGTH.pack(len(header)), header, _checksum(key.digest, header, payload), payload)
    )


def decode(data: bytes, digest: str) -> CacheEntry:
    """Read the file stored under a key's `digest`; raises BadEntryError unless it is complete and belongs there."""
    start = len(MAGIC) + _LENGTH.size
    if data[: len(MAGIC)] != MAGIC or len(data) < start:
        raise BadEntryError("it is not an entry of this cache")
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    end = start + length
    if length > _LONGEST_HEADER or len(data) < end + _CHECKSUM:
        raise BadEntryError("it ends too early")
    header, stored, payload = data[start:end], data[end : end + _CHECKSUM], data[end + _CHECKSUM :]
    if stored != _checksum(digest, header, payload):
        raise BadEntryError("its checksum does not match: it is damaged, or another entry's")
    try:
        fields = json.loads(header)
    except (RecursionError, ValueError):
        raise BadEntryError("its header is not valid JSON") from None
    if not isinstance(fields, dict):
        raise BadEntryError("its header is not an object")
    return CacheEntry(fields, payload)


def _checksum(digest: str, header: bytes, payload: bytes) -> bytes:
    total = hashlib.sha256(digest.encode())
    total.update(header)
    total.update(payload)
    return total.digest()
