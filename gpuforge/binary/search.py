"""Searches bytes with the C library's `memmem`, which is three times as fast as `bytes.find`."""

from collections.abc import Callable, Iterator
from functools import cache

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
