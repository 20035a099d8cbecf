"""Find a few bytes in many: with the C library's `memmem` where there is one."""

from __future__ import annotations

from gpuforge.audit import libc

_LARGE = 1 << 14  # bytes; below this, calling into C costs more than it saves


def find(data: bytes, word: bytes, start: int = 0, stop: int | None = None) -> int:
    """Return what `data.find(word, start, stop)` does; the interpreter's lock is let go meanwhile."""
    stop = len(data) if stop is None else stop
    count = stop - start
    memmem = libc.memmem() if count >= _LARGE else None
    if memmem is None:
        return data.find(word, start, stop)
    at = libc.address(data)
    hit = memmem(at + start, count, word, len(word))
    return -1 if hit is None else hit - at
