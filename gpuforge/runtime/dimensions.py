"""The dimensions of a launch."""

from __future__ import annotations

from typing import Any


def three(dim: Any) -> tuple[int, int, int]:
    """Return a grid or block as three numbers; raises TypeError for anything but one to three whole numbers."""
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    try:
        x, y, z = [number.__index__() for number in given] + [1] * (3 - len(given))
    except (AttributeError, ValueError):
        raise TypeError(f"a grid or block is one to three whole numbers, not {dim!r}") from None
    return x, y, z
