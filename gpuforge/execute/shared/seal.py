"""The checksum of a record and its key: it reveals changed bytes, and a record in another's place."""

from __future__ import annotations

import re

from gpuforge import digest

_SEALED = re.compile(rb'\{"sha256":"([0-9a-f]{64})","record":(.*)\}', re.DOTALL)


def sealed(key: str, record: bytes) -> bytes:
    """Return a JSON record with its checksum, as JSON."""
    return b'{"sha256":"%s","record":%s}' % (_sum(key, record), record)


def unsealed(key: str, data: bytes) -> bytes:
    """Return the record without its checksum; raises ValueError for changed bytes and for another key's record."""
    found = _SEALED.fullmatch(data)
    if found is None:
        msg = "its record has no sum"
        raise ValueError(msg)
    if found[1] != _sum(key, found[2]):
        msg = "its record has changed, or is that of another key"
        raise ValueError(msg)
    return found[2]


def _sum(key: str, record: bytes) -> bytes:
    return digest.of_bytes(key.encode() + b"\n" + record).encode()
