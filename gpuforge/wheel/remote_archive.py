"""Reads wheels on a server by byte ranges: the directory, single members, and many small ones at a time."""

import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

from gpuforge.binary.budget import Budget
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import BROKEN, Archive, Member, directory

Fetch = Callable[[int, int], Iterator[bytes]]  # offset and count -> the bytes
_BLOCK = 1 << 18  # bytes of the smallest request; the directory of most wheels fits into one


class RemoteArchive(Archive):
    """A zip file of `size` bytes that `fetch` reads.

    Small members come with the bytes around them, in blocks that are kept in a file without a name. The data of a large
    one is fetched by one call.
    """

    def __init__(self, name: str, size: int, fetch: Fetch) -> None:
        """Read its directory; raises MalformedError for a file that is not a zip file, and the errors of `fetch`."""
        self.path = name
        self._size, self._fetch, self.budget = size, fetch, Budget(size)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  the blocks that were fetched; closed by __exit__
        self._kept: set[int] = set()  # the numbers of the blocks in it
        self._one_at_a_time = threading.Lock()
        try:
            self.directory = directory(io.BufferedReader(_RangeFile(size, self._pread), _BLOCK), size)
            self.members = self.directory.members
            self.budget.spend("entries", len(self.members))
        except BROKEN as error:
            self._file.close()
            raise MalformedError.of(f"{name} is not a sound wheel: {error}") from error
        except BaseException:
            self._file.close()
            raise

    def _packed(self, member: Member, count: int) -> Iterator[bytes]:
        if member.packed <= _BLOCK:
            yield from super()._packed(member, count)
            return
        start, _first = self._begin(member, 0)
        yield from self._fetch(start, member.packed)

    def _pread(self, count: int, offset: int) -> bytes:
        count = max(0, min(count, self._size - offset))
        with self._one_at_a_time:  # threads that read neighbouring members need the same blocks
            self._keep(offset // _BLOCK, -(-(offset + count) // _BLOCK))
        return os.pread(self._file.fileno(), count, offset)

    def _keep(self, first: int, end: int) -> None:
        """Fetch the blocks from `first` to `end` that are missing, by one call for all of them."""
        missing = [number for number in range(first, end) if number not in self._kept]
        if not missing:
            return
        position, stop = missing[0] * _BLOCK, min(self._size, (missing[-1] + 1) * _BLOCK)
        for chunk in self._fetch(position, stop - position):
            position += os.pwrite(self._file.fileno(), chunk, position)
        self._kept.update(range(missing[0], missing[-1] + 1))


class _RangeFile(io.RawIOBase):
    """The same as a file, for `zipfile`."""

    def __init__(self, size: int, pread: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size, self._pread, self._position = size, pread, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = (0, self._position, self._size)[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self._pread(len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
