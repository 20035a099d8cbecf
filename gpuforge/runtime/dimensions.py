"""The size of a launch: its grid, its blocks and its shared memory, checked alike by all back ends."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

_MOST = (1 << 31) - 1  # of a grid's first axis, with CUDA; no back end has more
_MOST_BYTES = (1 << 62) - 1
_AXES = "xyz"

Three = tuple[int, int, int]


class Limits(NamedTuple):
    """The most that a device takes: of each axis of a `grid` and a `block`, and of `threads` in a block."""

    owner: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    threads: int


def three(dim: Any, what: str = "grid or block") -> Three:
    """Return a grid or block as three numbers.

    Raises TypeError for anything but one to three whole numbers, ValueError for a number below 1 or above 2^31-1.
    """
    if type(dim) is int and 0 < dim <= _MOST:
        return dim, 1, 1
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    numbers = [_whole(number) for number in given]
    if None in numbers or not 1 <= len(numbers) <= 3:
        raise TypeError(f"a {what} is one to three whole numbers, not {_shown(dim)}")
    for axis, number in zip(_AXES, numbers):
        if number < 1:
            raise ValueError(
                f"{what} {_shown(dim)}: its axis {axis} is {_shown(number)}, and the least is 1; launch nothing if "
                "there is nothing to do"
            )
        if number > _MOST:
            raise ValueError(
                f"{what} {_shown(dim)}: its axis {axis} is more than 2^31-1, the most of any back end"
            )
    x, y, z = numbers + [1] * (3 - len(numbers))
    return x, y, z


def launch_size(grid: Any, block: Any, shared: Any, cluster: Any = None) -> tuple[Three, Three, int]:
    """Return the size of a launch, with `shared` bytes of shared memory; raises TypeError, ValueError."""
    if cluster is not None:
        three(cluster, "cluster")
    return three(grid, "grid"), three(block, "block"), size_of("shared", shared)


def size_of(what: str, size: Any) -> int:
    """Return a number of bytes; raises TypeError unless it is a whole number, ValueError if it is negative or huge."""
    if type(size) is int and 0 <= size <= _MOST_BYTES:
        return size
    number: int | None = _whole(size)
    if number is None:
        raise TypeError(f"{what} is a whole number of bytes, not {_shown(size)}")
    if number < 0:
        raise ValueError(f"{what} is a number of bytes, and {_shown(size)} is negative")
    if number > _MOST_BYTES:
        raise ValueError(f"{what} is more bytes than there can be: {_shown(size)}")
    return number


def refuse_beyond(limits: Limits, grid: Three, block: Three) -> None:
    """Raise ValueError, which names the limit, unless a device takes a grid and a block."""
    for what, numbers, most in (("grid", grid, limits.grid), ("block", block, limits.block)):
        for axis, number, limit in zip(_AXES, numbers, most):
            if number > limit:
                raise ValueError(
                    f"{what} {numbers}: its axis {axis} is {number}, and the most of {limits.owner} is {limit}"
                )
    threads = math.prod(block)
    if threads > limits.threads:
        raise ValueError(
            f"block {block}: it has {threads} threads, and the most of {limits.owner} is {limits.threads}"
        )


def _whole(number: Any) -> Any:
    """Return a whole number of any type as an int, None for another value; True is not a number."""
    if isinstance(number, bool):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


def _shown(value: Any) -> str:
    """Return a value's text, which must not be long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no int of more than 4,300 digits
        return "a very large number"
    return text if len(text) <= 60 else f"{text[:50]}…"
