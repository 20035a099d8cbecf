"""Copies a buffer of the host into device memory."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar


class _Memory(Protocol):
    def write(self, source: Any) -> None: ...

    def free(self) -> None: ...


M = TypeVar("M", bound=_Memory)


def filled(memory: M, source: Any) -> M:
    """Return device memory with a copy of a contiguous buffer; it is freed if the copy fails."""
    try:
        memory.write(source)
    except BaseException:
        memory.free()
        raise
    return memory
