"""Refuses arrays with gaps: a kernel gets only an address, and would silently read the bytes between the elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def refuse_gaps(array: Any, shape: Sequence[int], strides: Sequence[int], step: int) -> None:
    """Raise ValueError unless the elements fill one block of memory, from the array's address on.

    The axes may come in any order, so an array in Fortran's order is accepted. `step` is the distance of neighbours in
    the unit of `strides`: an element's bytes, or 1.
    """
    if 0 in shape:
        return
    given = tuple(strides)
    for stride, count in sorted(zip(given, shape)):
        if count == 1:
            continue
        if stride != step:
            raise ValueError(
                f"{type(array).__name__} of shape {tuple(shape)} with strides {given} is not contiguous, and a kernel "
                "only gets its address: pass a contiguous copy (ascontiguousarray of NumPy and CuPy, contiguous of "
                "torch). If the kernel takes the strides as arguments, pass the address as ctypes.c_void_p"
            )
        step *= count
