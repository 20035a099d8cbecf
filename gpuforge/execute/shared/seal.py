"""The sum of a record: over its bytes and its key, so that a changed byte and a record in another's place are seen."""

from __future__ import annotations

import re

from gpuforge import digest

_SEALED = re.compile(rb'\{"sha256":"([0-9a-f]{64})","record":(.*)\}', re.DOTALL)


def sealed(key: str, record: bytes) -> bytes:
    """Return a record, which is JSON, with its sum: JSON again."""
    return b'{"sha256":"%s","record":%s}' % (_sum(key, record), record)


def unsealed(key: str, data: bytes) -> bytes:
    """Return what `sealed` was given; raises ValueError for other bytes, and for the record of another key."""
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
