"""The port to the place of a compiler cache."""

from __future__ import annotations

from typing import Protocol


class CachePlace(Protocol):
    """Bytes by name; `Objects` are such a place. Every method raises GpuforgeError when it fails."""

    def read(self, name: str, most: int) -> bytes | None:
        """Return an object's bytes, or None where it is not there; an error for more than `most`."""

    def put(self, name: str, data: bytes) -> None:
        """Write an object, in place of one that is there."""
