"""Begin to read a large wheel while the rest of the program is still being loaded: inflating leaves it the interpreter.

What was begun is taken by who reads that wheel; of anything else, and of an error, nothing comes from here.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from threading import Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gpuforge.audit.scan import Scanned, is_binary, may_be_binary, scan
from gpuforge.binary import libc
from gpuforge.errors import CorruptError, MalformedError
from gpuforge.wheel.archive import Archive, Member

if TYPE_CHECKING:
    from pathlib import Path

LARGE = 4 << 20  # bytes of a wheel that is worth preparing for
SWITCH = 0.00002  # seconds: reading threads want the interpreter briefly, between one piece and the next


class Binaries:
    """The binaries of an archive with their places in its directory, the largest first; each goes to one thread.

    What the small files are is asked last: a large one keeps the interpreter free for loading code meanwhile.
    """

    def __init__(self, archive: Archive) -> None:
        members = [(i, m) for i, m in enumerate(archive.members) if m.packed and may_be_binary(m.name)]
        members.sort(key=lambda each: each[1].size, reverse=True)
        self._found = ((i, m) for i, m in members if _is_binary(archive, m))
        self._lock = Lock()

    def __iter__(self) -> Iterator[tuple[int, Member]]:
        return self

    def __next__(self) -> tuple[int, Member]:
        with self._lock:
            return next(self._found)

    def stop(self) -> None:
        """Have no more of them."""
        with self._lock:
            self._found.close()


def _is_binary(archive: Archive, member: Member) -> bool:
    """Say whether a member is to be scanned; so is what cannot be unpacked, which is told there."""
    try:
        return member.name.endswith(".cubin") or is_binary(member.name, archive.head(member, 8))
    except CorruptError:
        return True


class Begun:
    """A wheel that threads of its own read the binaries of: one, and more when they are asked for."""

    def __init__(self, path: str) -> None:
        """Open it; raises as `Archive` does."""
        self.path = path
        self._name = os.path.basename(path)  # noqa: PTH119  loading pathlib takes as long as inflating 2 MB
        self.archive = Archive(path)
        self.binaries = Binaries(self.archive)
        self._done: list[tuple[int, Scanned]] = []
        self._error: Exception | None = None
        self._threads: list[Thread] = []
        self.join_in(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.binaries.stop()
        if kind is not None and not issubclass(kind, Exception):
            return  # interrupted: the threads end with the program
        self._wait()
        self.archive.__exit__(kind, error, trace)

    def join_in(self, count: int) -> None:
        """Have that many threads more read it, as far as more can be started."""
        with contextlib.suppress(RuntimeError):  # what CPython raises where processes are limited
            for _ in range(count):
                # the program may end without having asked for what they read
                thread = Thread(target=self._read, daemon=True)
                thread.start()
                self._threads.append(thread)

    def busy(self) -> bool:
        """Say whether it is still being read."""
        return any(thread.is_alive() for thread in self._threads)

    def scanned(self) -> list[tuple[int, Scanned]]:
        """Wait for the threads, and return what they have scanned; raises what stopped them.

        If there is none, it is scanned now.
        """
        if not self._threads:
            self._read()
        self._wait()
        if self._error:
            raise self._error
        return self._done

    def _wait(self) -> None:
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        try:
            for index, member in self.binaries:
                self._done.append((index, scan(self.archive, member, self._name)))
        except Exception as error:  # noqa: BLE001  raised where the results are asked for
            self._error = error
            self.binaries.stop()


_begun: list[Begun] = []


def begin(arguments: Sequence[str]) -> None:
    """Begin with the largest wheel that the arguments of a command name, if it is a large one."""
    libc.keep_memory()
    sizes = {}
    for argument in arguments:
        if argument.endswith(".whl"):
            with contextlib.suppress(OSError):
                sizes[argument] = os.stat(argument).st_size  # noqa: PTH116  no path is made of what is none
    largest = max(sizes, key=lambda each: sizes[each], default="")
    if largest and sizes[largest] >= LARGE:
        sys.setswitchinterval(SWITCH)
        with contextlib.suppress(MalformedError, OSError):  # said by who reads it
            _begun.append(Begun(largest))


def taken(path: Path, label: str) -> Begun | None:
    """Return the reading of a wheel that was begun under this name, once; its thread is the taker's to end."""
    for index, begun in enumerate(_begun):
        if _same(begun, path) and path.name == label:
            return _begun.pop(index)
    return None


def is_begun(path: Path) -> bool:
    """Say whether a wheel is being read, and waits to be taken."""
    return any(_same(begun, path) for begun in _begun)


def _same(begun: Begun, path: Path) -> bool:
    return type(path)(begun.path) == path
