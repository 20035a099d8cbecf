"""The bytes of a file: the parts that were kept while it was read as a stream, searches in them, and a budget.

The budget is for reading and judging a wheel, so that a small file cannot take hours or gigabytes. Every reader spends
it. The limits are far beyond the needs of normal wheels: of thirty real ones none spends a tenth of any.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Literal, NamedTuple

from gpuforge.errors import MalformedError, TooLargeError

Kind = Literal["bytes", "names", "entries", "work", "edges", "wheels"]


class _Limit(NamedTuple):
    """The budget of one kind: a fixed part for small wheels, and more for each byte of the file."""

    least: int
    per_byte: float
    reason: str


_LIMITS: dict[Kind, _Limit] = {
    "bytes": _Limit(512 << 20, 40, "reading its files means unpacking more than {:,} bytes"),
    "names": _Limit(32 << 20, 0.5, "the names in it have more than {:,} characters"),
    "entries": _Limit(400_000, 1 / 512, "its tables have more than {:,} entries"),
    "work": _Limit(4_000_000, 0, "its requirements take more than {:,} comparisons"),
    "edges": _Limit(1_000_000, 0, "following what its libraries need takes more than {:,} steps"),
    "wheels": _Limit(500, 1 / 8192, "there are more than {:,} wheels in it"),  # each takes 5 ms
}


class Budget:
    """The budget of one wheel."""

    def __init__(self, size: int) -> None:
        """Start with the budget of a file of `size` bytes."""
        self.size = size
        self.limits: dict[Kind, int] = {
            kind: limit.least + int(size * limit.per_byte) for kind, limit in _LIMITS.items()
        }
        self.spent: dict[Kind, int] = dict.fromkeys(_LIMITS, 0)

    def spend(self, kind: Kind, amount: int) -> None:
        """Take an amount out of the budget; raises TooLargeError if it is spent."""
        self.spent[kind] += amount
        if self.spent[kind] > self.limits[kind]:
            raise TooLargeError.of(_LIMITS[kind].reason.format(self.limits[kind]))


_WORTH_IT = 1 << 13  # bytes; for fewer, `bytes.find` is faster than the conversion of arguments by ctypes


def find(data: bytes, word: bytes, start: int = 0, stop: int | None = None) -> int:
    """Return the offset of the first occurrence of a word between `start` and `stop`, or -1."""
    count = (len(data) if stop is None else stop) - start
    if count < _WORTH_IT or not (memmem := _memmem()):
        return data.find(word, start, stop)
    base, search = memmem
    address = base(data)
    hit = search(address + start, count, word, len(word))
    return -1 if hit is None else hit - address


def find_all(data: bytes, word: bytes) -> Iterator[int]:
    """Yield the offset of each occurrence of a word; occurrences may overlap."""
    at = find(data, word)
    while at >= 0:
        yield at
        at = find(data, word, at + 1)


@cache
def _memmem() -> tuple[Callable[[bytes], int], Callable[[int, int, bytes, int], int | None]] | None:
    """Return a function for the address of bytes, and `memmem`; None if the C library has none (Windows)."""
    import ctypes  # noqa: PLC0415  only wheels with large files need it

    try:
        search = ctypes.CDLL(None).memmem
    except (OSError, TypeError, AttributeError):
        return None
    search.restype = ctypes.c_void_p
    search.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]

    def address(data: bytes) -> int:
        return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0

    return address, search


Piece = bytes | mmap.mmap
_COPIED = 0.25  # of a chunk: for larger parts the whole chunk is kept, as copying takes longer


class MissedError(Exception):
    """A range of the file was not kept, so the file has to be read again."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__(f"bytes {start}..{stop} were not kept")
        self.start = start
        self.stop = stop


class Window:
    """Pieces of a file of `size` bytes, readable by offset."""

    def __init__(
        self, size: int, pieces: Mapping[int, Piece] | None = None, budget: Budget | None = None
    ) -> None:
        """Use the `budget` of the wheel that the file is in; a single file has its own."""
        self.size = size
        self.budget = budget or Budget(size)
        self._pieces: dict[int, Piece] = dict(pieces or {})
        self._starts = sorted(self._pieces)

    @classmethod
    def of(cls, data: Piece, budget: Budget | None = None) -> Window:
        """Return a window of a whole file."""
        return cls(len(data), {0: data}, budget)

    def keep(self, at: int, chunk: bytes, start: int, stop: int) -> None:
        """Keep the bytes from `start` to `stop` that are in the `chunk` at offset `at`, or the whole chunk."""
        first, last = max(0, start - at), min(len(chunk), stop - at)
        if last <= first:
            return
        if last - first <= len(chunk) * _COPIED:
            at, chunk = at + first, chunk[first:last]
        if at not in self._pieces:
            insort(self._starts, at)
        elif len(self._pieces[at]) >= len(chunk):
            return
        self._pieces[at] = chunk

    def has(self, start: int, stop: int) -> bool:
        """Return whether the bytes from `start` to `stop` were kept."""
        while start < stop:
            at, piece = self._around(start)
            if at + len(piece) <= start:
                return False
            start = at + len(piece)
        return True

    def read(self, offset: int, count: int) -> bytes:
        """Return exactly `count` bytes at `offset`.

        Raises MalformedError if the file ends before them, MissedError if they were not kept.
        """
        if offset < 0 or count < 0 or offset + count > self.size:
            raise MalformedError.of(f"it ends at byte {self.size}, before {offset + count}")
        if not count:
            return b""
        return self._piece(offset, count, count)

    def read_up_to(self, offset: int, count: int) -> bytes:
        """Return at most `count` bytes at `offset`; fewer at the end of the file. Raises the errors of `read`."""
        return self.read(offset, max(0, min(count, self.size - offset)))

    def text(self, offset: int, limit: int) -> str:
        """Return the NUL-terminated string at `offset`, which must end before `limit`. Raises the errors of `read`."""
        step = 256
        while True:
            data = self.read(offset, max(0, min(step, limit - offset)))
            end = data.find(b"\0")
            if end >= 0:
                return data[:end].decode("utf-8", "backslashreplace")
            if offset + step >= limit:
                raise MalformedError.of(f"the string at byte {offset} has no end")
            step *= 8

    def _piece(self, offset: int, count: int, at_least: int) -> bytes:
        index = bisect_right(self._starts, offset) - 1
        if index >= 0:
            start = self._starts[index]
            piece = self._pieces[start]
            if start + len(piece) >= offset + count:
                return piece[offset - start : offset - start + count]
        return self._joined(offset, count, at_least)

    def _joined(self, offset: int, count: int, at_least: int) -> bytes:
        """Return bytes that are in an earlier piece, or in several."""
        found = []
        position, end = offset, offset + count
        while position < end:
            start, piece = self._around(position)
            part = piece[position - start : end - start]
            if not part:
                raise MissedError(offset, min(self.size, offset + max(at_least, 1 << 16)))
            found.append(part)
            position += len(part)
        return b"".join(found)

    def _around(self, position: int) -> tuple[int, Piece]:
        """Return offset and bytes of the last piece to end, among those that begin before `position`."""
        behind = self._starts[: bisect_right(self._starts, position)]
        start = max(behind, key=lambda at: at + len(self._pieces[at]), default=0)
        return start, self._pieces.get(start, b"")
