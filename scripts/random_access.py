"""A read-only file that is fetched or unpacked in pieces: what zipfile and tarfile ask of one."""

from __future__ import annotations

import io


class RandomAccess(io.RawIOBase):
    """A file of `size` bytes with a position; a subclass says what `read` returns."""

    def __init__(self, size: int) -> None:
        self.size, self._at = size, 0

    def seekable(self) -> bool:
        """Say that `seek` works."""
        return True

    def readable(self) -> bool:
        """Say that `read` works."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to `offset` and return the new position."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._at

    def stop(self, size: int) -> int:
        """Return where a read of `size` bytes (to the end if negative) ends."""
        return self.size if size < 0 else min(self.size, self._at + size)
