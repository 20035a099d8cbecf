"""Copies of the host's arrays that stay on a device from launch to launch, and have one owner for each region.

from ._gpuforge.copies import DeviceCopies

with DeviceCopies() as copies:
    copies.launch(kernel, grid, block, x, y)    # copies x and y to the device
    copies.launch(other, grid, block, y)        # finds y there
    copies.bring_back()                         # y, as the kernels have left it
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Any

from .host_access import reads_only
from .signature import HostArray, Owned, given_value, host_array


class DeviceCopies(Owned):
    """The owner of the copies of arrays on one device; use it in a `with` statement, or call `close`.

    A copy is made at an array's first launch, and is valid until the array's memory is written on the host, through any
    view: the next launch then copies it again. Where the kernels have written the copy, too, ValueError is raised, and
    neither is lost. An array that overlaps another one's copy, without being the same memory, gets what the kernels
    have written there: that copy is brought back first, and given up. What kernels write is seen on the host after
    `bring_back` alone. Each launch reads the memory of its arrays once, to compare. Not safe for threads.
    """

    def __init__(self) -> None:
        self._copies: list[_Copy] = []

    def launch(self, kernel: Any, grid: Any, block: Any, *arguments: Any, **options: Any) -> None:
        """Launch a kernel with the copies of those arguments that are the host's arrays; the others are passed on.

        Raises ValueError for arrays that overlap if the kernel may write one of them, for a read-only array that it may
        write, and as the kernel's `launch`.
        """
        arrays = {
            number: array
            for number, value in enumerate(arguments)
            if not hasattr(value, "free") and _is_array(value) and (array := host_array(value)) is not None
        }
        written = {number for number in arrays if _writes(kernel, number)}
        for array in (arrays[number] for number in written if not arrays[number].writable):
            raise ValueError(
                f"{array.name} is read-only, and the kernel may write it: pass a copy, numpy.array(…)"
            )
        _refuse_overlap(arrays, written)
        copies = {n: self._copy_of(kernel, array, arrays.values()) for n, array in arrays.items()}
        values = [copies[n].memory if n in copies else value for n, value in enumerate(arguments)]
        for number in written:  # also if the launch fails, as it may have begun
            copies[number].written = True
        kernel.launch(grid, block, *values, **options)

    def bring_back(self, array: Any = None) -> None:
        """Copy what kernels have written into an array, without one into all; waits for the kernels.

        Raises ValueError for memory that was written on the host meanwhile.
        """
        own = None if array is None else host_array(array)
        for copy in self._copies:
            if copy.written and (own is None or _overlap(copy.array, own)):
                copy.bring_back()

    def close(self) -> None:
        """Free all copies; what was not brought back is lost. More than once is harmless."""
        while self._copies:
            self._copies.pop().memory.free()

    free = close  # for `Owned`

    def _copy_of(self, kernel: Any, array: HostArray, arrays: Collection[HostArray]) -> _Copy:
        """Return the copy of one of a launch's arrays; copies that overlap it stay if they are of these arrays, too."""
        own = None
        for copy in self._overlapping(array):
            if _same(copy.array, array):
                own = copy
                continue
            if copy.written:
                copy.bring_back()
            if not any(_same(copy.array, each) for each in arrays):
                self._copies.remove(copy)
                copy.memory.free()
        if own is None:
            own = _Copy(array, kernel.upload(array.value))
            self._copies.append(own)
            return own
        own.refresh()
        own.array = array if array.writable else own.array
        return own

    def _overlapping(self, array: HostArray) -> Iterator[_Copy]:
        yield from [copy for copy in self._copies if _overlap(copy.array, array)]


class _Copy:
    """The copy of an array; `written` if kernels may have changed it since it was brought back."""

    def __init__(self, array: HostArray, memory: Any) -> None:
        self.array = array  # keeps the memory where it is
        self.memory = memory
        self.written = False
        self._seen = _digest(array)

    def refresh(self) -> None:
        """Copy the array again if it was changed on the host; raises ValueError if the copy was written, too."""
        if self._is_as_seen():
            return
        self.memory.write(self.array.value)
        self._seen = _digest(self.array)

    def bring_back(self) -> None:
        """Copy into the array; raises ValueError if it was changed on the host."""
        self._is_as_seen()
        self.memory.read(self.array.value)
        self.written = False
        self._seen = _digest(self.array)

    def _is_as_seen(self) -> bool:
        same = _digest(self.array) == self._seen
        if self.written and not same:
            raise ValueError(
                f"{self.array.name} was written on the host while kernels wrote its copy on the device: call "
                "bring_back() before you write it; close() gives all copies up"
            )
        return same


def _digest(array: HostArray) -> bytes:
    return hashlib.blake2b(array.bytes() if array.size else b"", digest_size=16).digest()


def _place(array: HostArray) -> tuple[int, int]:
    return array.address, array.address + array.size


def _same(one: HostArray, other: HostArray) -> bool:
    return _place(one) == _place(other) and one.dtype == other.dtype


def _overlap(one: HostArray, other: HostArray) -> bool:
    (start, end), (first, last) = _place(one), _place(other)
    return max(start, first) < min(end, last) or (start, end) == (first, last)


def _is_array(value: Any) -> bool:
    try:
        return given_value(value) is None
    except TypeError:  # a number that no kernel can have: its launch says so
        return False


def _writes(kernel: Any, number: int) -> bool:
    """Return whether a kernel may write what an argument points to."""
    entry = getattr(kernel, "_entry", None)
    if entry is None:  # of IREE
        parameters = kernel._parameters
        return number < len(parameters) and parameters[number].output is not None
    parameters = entry.parameters or ()
    return number >= len(parameters) or not reads_only(parameters[number])


def _refuse_overlap(arrays: dict[int, HostArray], written: set[int]) -> None:
    for number, array in arrays.items():
        for other in (each for each in arrays if each < number and (each in written or number in written)):
            if _overlap(arrays[other], array) and not _same(arrays[other], array):
                raise ValueError(
                    f"arguments {other} and {number} overlap in memory, and one of them can be written: "
                    "pass a copy of one, or make both read-only"
                )
