"""Copies an array of the host into memory of a kernel's device."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from .hostarray import source_of


class _Memory(Protocol):
    def write(self, source: Any) -> None: ...

    def free(self) -> None: ...


M = TypeVar("M", bound=_Memory)


class Uploads(Generic[M]):
    """A kernel with memory on its device."""

    __slots__ = ()

    def memory(self, size: int) -> M:
        """Allocate `size` bytes, freed by a `with` statement."""
        raise NotImplementedError

    def upload(self, source: Any) -> M:
        """Return device memory with a copy of an array in C's order; raises TypeError, ValueError, DriverError."""
        memory = self.memory(source_of(source).size)
        try:
            memory.write(source)
        except BaseException:
            memory.free()
            raise
        return memory
