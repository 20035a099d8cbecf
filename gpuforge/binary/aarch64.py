"""Read the code of aarch64: whether it has atomic instructions of Armv8.1 (LSE), and none for older processors.

Encodings: https://developer.arm.com/documentation/ddi0602, "Loads and Stores". By default compilers call functions that
choose (`-moutline-atomics`), which have both kinds; with `-march=armv8.1-a` only LSE is left. In the 339 objects of 15
wheels on PyPI those with LSE have both.
"""

import re
from collections.abc import Iterable

# of an instruction the second to the fourth byte, the highest last: load exclusive; compare and swap, or an operation
_EXCLUSIVE = re.compile(rb"[\x7c-\x7f\xfc-\xff]\x5f[\x08\x48\x88\xc8]")
_LSE = re.compile(
    rb"[\x7c-\x7f\xfc-\xff][\xa0-\xbf\xe0-\xff][\x08\x48\x88\xc8]"
    rb"|[\x00-\x03\x10-\x13\x20-\x23\x30-\x33\x40-\x43\x50-\x53\x60-\x63\x70-\x73\x80-\x83]"
    rb"[\x20-\x3f\x60-\x7f\xa0-\xbf\xe0-\xff][\x38\x78\xb8\xf8]"
)
_LEAST = 3  # instructions; a table of numbers among the code may look like one


def needs_lse(chunks: Iterable[bytes], start: int, size: int) -> bool:
    """Return whether the code in the `size` bytes from `start` on has atomic instructions of Armv8.1 alone."""
    count, left, skip, rest = 0, size, start, b""
    for chunk in chunks:
        part = chunk[skip : skip + left]
        skip = max(0, skip - len(chunk))
        left -= len(part)
        data = rest + part
        rest = data[len(data) // 4 * 4 :]
        if any(match.start() % 4 == 1 for match in _EXCLUSIVE.finditer(data)):
            return False
        count += sum(match.start() % 4 == 1 for match in _LSE.finditer(data))
        if not left:
            break
    return count >= _LEAST
