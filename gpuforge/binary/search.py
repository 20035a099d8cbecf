"""Find a few bytes in many: compiled, or with the C library's `memmem`, or as Python does it; all find the same."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.binary import libc

try:
    from gpuforge.binary._find import find as _compiled
    from gpuforge.binary._find import find_both as _compiled_both
except ImportError:  # it was installed without a C compiler
    _compiled = _compiled_both = None

_LARGE = 1 << 14  # bytes; below this, calling `memmem` costs more than it saves
_SHORTEST = 4  # bytes of a word that the compiled function takes


def find(data: bytes, word: bytes, start: int = 0, stop: int | None = None) -> int:
    """Return what `data.find(word, start, stop)` does, for a range inside of `data`.

    The interpreter's lock is let go meanwhile if it is long.
    """
    stop = len(data) if stop is None else stop
    if _compiled and len(word) >= _SHORTEST:
        return int(_compiled(data, word, start, stop))
    count = stop - start
    memmem = libc.memmem() if count >= _LARGE else None
    if memmem is None:
        return data.find(word, start, stop)
    at = libc.address(data)
    hit = memmem(at + start, count, word, len(word))
    return -1 if hit is None else hit - at


def find_all(data: bytes, word: bytes) -> Iterator[int]:
    """Yield where a word begins, each time that it is there; they may overlap."""
    at = find(data, word)
    while at >= 0:
        yield at
        at = find(data, word, at + 1)


def find_both(data: bytes, word: bytes, mark: bytes, start: int = 0) -> tuple[int, int]:
    """Return where `word` begins at or after `start`, and where `mark` does that ends before it; -1 for none."""
    if _compiled_both and len(word) >= _SHORTEST <= len(mark):
        hit, marked = _compiled_both(data, word, mark, start)
        return int(hit), int(marked)
    at = find(data, word, start)
    return at, find(data, mark, start, None if at < 0 else at)
