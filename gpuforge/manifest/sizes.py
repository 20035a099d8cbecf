"""Sizes in bytes, read from text and written for people."""

import re

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def size_in_bytes(text: str) -> int:
    """Parse "100 MB" (10⁶ bytes each) or "95 MiB" (2²⁰ bytes each); raises ValueError for anything else."""
    if match := re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([kKMG]i?)?B", text):
        unit = f"{match[2] or ''}B"
        if unit in _UNITS:
            return int(float(match[1]) * _UNITS[unit])
    raise ValueError(text)


def size_in_words(size: int) -> str:
    """Write bytes with the unit that leaves digits before the point: "12.7 MB", "8.3 kB", "812 B"."""
    for unit in ("GB", "MB", "kB"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.1f} {unit}"
    return f"{size} B"
