"""What reading asks of the C library beyond what Python offers; nothing where it is another one (Windows, musl)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

try:
    from gpuforge.binary._find import keep_memory as _compiled
except ImportError:  # it was installed without a C compiler
    _compiled = None

Memmem = Callable[[object, int, bytes, int], int | None]
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT = 256 << 20  # bytes of free memory that are kept; reading has never more than a third of it in hand
_LARGEST = 32 << 20  # bytes of a block that is taken from kept memory: the most that every glibc accepts


@cache
def memmem() -> Memmem | None:
    """Return `memmem`, which finds a few bytes in many four times as fast as `bytes.find`."""
    import ctypes  # noqa: PLC0415  small wheels are done before it would be loaded

    try:
        function = ctypes.CDLL(None).memmem
    except (OSError, TypeError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return function


@cache
def keep_memory() -> None:
    """Have malloc use freed memory again: giving it back and getting it zeroed costs a tenth of reading a wheel."""
    if _compiled:
        _compiled(_LARGEST, _KEPT)
        return
    import ctypes  # noqa: PLC0415

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST)
    mallopt(_TRIM_THRESHOLD, _KEPT)


def address(data: bytes) -> int:
    """Return where the bytes lie in memory."""
    import ctypes  # noqa: PLC0415

    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
