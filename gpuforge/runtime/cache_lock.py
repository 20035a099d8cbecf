"""Locks that allow one computation at a time for each key, over all threads of a process and processes of a folder.

Between processes it is a lock on one byte of one file, which the kernel releases when its holder dies. Open file
description locks belong to the open file, not to the process, so threads and other users of the same file do not
release them: https://man7.org/linux/man-pages/man2/fcntl.2.html. They also work over NFS.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# struct flock of 64-bit Linux: l_type, l_whence, (padding), l_start, l_len, l_pid, (padding)
_FLOCK = struct.Struct("hhqqi4x")
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", 37)
_LONGEST_PAUSE = 0.05


@contextlib.contextmanager
def locked(file: Path, digest: str, *, patience: float) -> Iterator[bool]:
    """Hold the lock of a key's `digest` among processes; yield whether it was acquired.

    It is not after `patience` seconds, or if the file or its file system has no locks: then the caller computes without
    one, which is only slower. Never raises for a lock.
    """
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield False
        return
    try:
        is_locked = _acquire(handle, int(digest[:15], 16), patience)
        try:
            yield is_locked
        finally:
            if is_locked:  # closing the file would not unlock it, as a forked child may have it open, too
                _request(handle, fcntl.F_UNLCK, int(digest[:15], 16))
    finally:
        os.close(handle)


def _acquire(handle: int, offset: int, patience: float) -> bool:
    end = time.monotonic() + patience
    pause = 0.001
    while True:
        try:
            _request(handle, fcntl.F_WRLCK, offset)
            return True
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= end:
                return False
        except OSError:  # ENOLCK, EINVAL: the file system has no such locks
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _request(handle: int, kind: int, offset: int) -> None:
    fcntl.fcntl(handle, _SET_LOCK, _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0))


class Flights:
    """Lets one thread compute a value that several request at once; the others get its result, or its exception."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}

    def result(self, name: str, compute: Callable[[], bytes], nested: Callable[[], bytes]) -> bytes:
        """Return the result of `compute`, called by one of the threads that request `name` at this time.

        A thread that requests `name` while it computes it gets the result of `nested`, as it would wait for itself.
        """
        while True:
            with self._lock:
                flight = self._flights.get(name)
                if flight is None:
                    mine = self._flights[name] = _Flight()
            if flight is None:
                return self._lead(name, mine, compute)
            if flight.owner == threading.get_ident():
                return nested()
            flight.done.wait()
            if flight.error is not None:
                raise flight.error
            if flight.value is not None:
                return flight.value
            # its thread was interrupted: the next one computes

    def _lead(self, name: str, flight: _Flight, compute: Callable[[], bytes]) -> bytes:
        try:
            flight.value = compute()
            return flight.value
        except Exception as error:
            flight.error = error
            raise
        finally:
            with self._lock:
                del self._flights[name]
            flight.done.set()


class _Flight:
    """A computation under way in the thread `owner`."""

    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.done = threading.Event()
        self.value: bytes | None = None
        self.error: Exception | None = None
