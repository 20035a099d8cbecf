"""Reads wheels on a server: by byte ranges, or from a temporary copy if the server sends only whole files.

A server may be hostile: it must state the length of the file, send as many bytes, and do so in reasonable time.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from gpuforge.binary.window import Budget
from gpuforge.errors import MalformedError, MissingError, TooLargeError
from gpuforge.wheel.archive import BROKEN, Archive, Member, directory
from gpuforge.wheel.package_index import public

Session = requests.Session
_CHUNK = 1 << 20
_TIMEOUT = 60  # seconds without an answer
_SECONDS = 60  # limit for any answer
_BYTES_A_SECOND = 50_000  # the least average speed of a server
LARGEST = 8 << 30  # bytes of a wheel; the largest published ones have 3 GB
_RANGE = r"bytes 0-0/(\d{1,15})"
_IDENTITY = {"Accept-Encoding": "identity"}  # ranges of a compressed transfer are not ranges of the file


class _TooSlow(requests.Timeout):
    """A server sends so slowly that it may be intended."""


@contextmanager
def opened(session: requests.Session, file: str, url: str) -> Iterator[RemoteArchive]:
    """Open the wheel `file` at a URL for reading.

    Raises MissingError if the server cannot be reached or is too slow, MalformedError for a file that is not a wheel,
    and TooLargeError.
    """
    try:
        with _beginning(session, url) as (answer, size):
            if size:
                with RemoteArchive(file, size, partial(fetch, session, url)) as archive:
                    yield archive
                return
            with tempfile.TemporaryFile() as copy:
                for chunk in _body(answer, LARGEST):
                    copy.write(chunk)
                copy.flush()
                with RemoteArchive(
                    file, copy.tell(), lambda start, count: iter([os.pread(copy.fileno(), count, start)])
                ) as archive:
                    yield archive
    except (requests.RequestException, HTTPError) as error:
        raise MissingError.of(
            f"cannot read {file} on {public(url).partition(file)[0]}: {_reason(error)}",
            hint="check the network, the proxy and the CA bundle (REQUESTS_CA_BUNDLE, PIP_INDEX_URL)",
        ) from error


def fetch(session: requests.Session, url: str, start: int, count: int) -> Iterator[bytes]:
    """Yield `count` bytes of a file from `start` on; a server without ranges sends the file from its first byte."""
    if not count:
        return
    span = {"Range": f"bytes={start}-{start + count - 1}", **_IDENTITY}
    with session.get(url, headers=span, stream=True, timeout=_TIMEOUT) as answer:
        answer.raise_for_status()
        skip = 0 if answer.status_code == requests.codes.partial_content else start
        for chunk in _body(answer, skip + count):
            part = chunk[skip : skip + count]
            skip -= min(skip, len(chunk))
            count -= len(part)
            if part:
                yield part
            if not count:
                return
    raise requests.ConnectionError("the file ended early")


@contextmanager
def _beginning(session: requests.Session, url: str) -> Iterator[tuple[requests.Response, int]]:
    """Request the first byte: yield the answer and the size of the file, 0 if the answer is the whole file."""
    span = {"Range": "bytes=0-0", **_IDENTITY}
    with session.get(url, headers=span, stream=True, timeout=_TIMEOUT) as answer:
        answer.raise_for_status()
        if answer.status_code != requests.codes.partial_content:
            yield answer, 0
            return
        known = re.fullmatch(_RANGE, answer.headers.get("Content-Range", ""))
        if known is None or not int(known[1]):
            raise MalformedError.of("its server does not answer a request for a part of it with that part")
        if int(known[1]) > LARGEST:
            raise TooLargeError.of(f"its server says that it has {int(known[1]):,} bytes")
        yield answer, int(known[1])


def _body(answer: requests.Response, most: int) -> Iterator[bytes]:
    """Yield the bytes of an answer, at most `most`, as they come; raises _TooSlow."""
    begun, done = time.monotonic(), 0
    while chunk := answer.raw.read1(_CHUNK, decode_content=False):
        done += len(chunk)
        yield chunk
        if done > most:
            raise TooLargeError.of(f"its server sends more than {most:,} bytes")
        if time.monotonic() - begun > _SECONDS + done / _BYTES_A_SECOND:
            raise _TooSlow(f"it sends less than {_BYTES_A_SECOND // 1000} kB a second")


def _reason(error: Exception) -> str:
    if isinstance(error, requests.RequestException) and error.response is not None:
        return f"it answers {error.response.status_code}"
    return str(error) if isinstance(error, _TooSlow) else type(error).__name__


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
