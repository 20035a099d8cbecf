"""Wheels on a server, read by byte ranges: the directory, and single members."""

import io
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from gpuforge.binary.budget import Budget
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import BROKEN, Archive, Member, directory

Fetch = Callable[[int, int], Iterator[bytes]]  # the bytes from an offset on, and how many
_BLOCK = 1 << 16  # bytes; the directory of most wheels fits into one


class RemoteArchive(Archive):
    """A zip file of `size` bytes that `fetch` reads; a member's data is fetched by one call."""

    def __init__(self, name: str, size: int, fetch: Fetch) -> None:
        """Read its directory; raises MalformedError for a file that is not a zip file, and what `fetch` raises."""
        self.path = name
        self._size, self._fetch, self.budget = size, fetch, Budget(size)
        try:
            self.directory = directory(io.BufferedReader(_RangeFile(size, fetch), _BLOCK), size)
            self.members = self.directory.members
        except BROKEN as error:
            raise MalformedError.of(f"{name} is not a sound wheel: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass  # nothing is open between two ranges

    def _packed(self, member: Member, _: int) -> Iterator[bytes]:
        start, _first = self._begin(member, 0)
        yield from self._fetch(start, member.packed)

    def _pread(self, count: int, offset: int) -> bytes:
        return b"".join(self._fetch(offset, min(count, self._size - offset)))


class _RangeFile(io.RawIOBase):
    """The same as a file, for `zipfile`."""

    def __init__(self, size: int, fetch: Fetch) -> None:
        super().__init__()
        self._size, self._fetch, self._position = size, fetch, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = (0, self._position, self._size)[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        count = max(0, min(len(buffer), self._size - self._position))
        done = 0
        for chunk in self._fetch(self._position, count) if count else ():
            buffer[done : done + len(chunk)] = chunk
            done += len(chunk)
        self._position += done
        return done
