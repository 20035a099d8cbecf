"""Locks between processes and threads. Taking one never blocks, so that a caller who waits can be interrupted."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from gpuforge import digest

_POLL = 0.01  # seconds
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Claim:
    """A lock that this process has until `release`, or to the end of a `with`."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def release(self) -> None:
        """Release it, also in forked processes, which share it."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def claim(path: Path) -> Claim | None:
    """Take the lock at `path` if it is free, else return None.

    The file stays when the lock is released: removing it would let two processes hold "the same" lock.
    Raises OSError when the file cannot be made, or its file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, _LOCK, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_nlink:  # else its folder was removed meanwhile
            return Claim(handle)
    except BlockingIOError:
        pass
    except OSError as error:
        os.close(handle)
        raise OSError(error.errno, error.strerror, str(path)) from error
    os.close(handle)
    return None


@contextmanager
def wait(path: Path) -> Iterator[None]:
    """Wait for the lock at `path` and hold it in a `with`: only for locks that are held for moments."""
    while (held := claim(path)) is None:
        time.sleep(_POLL)
    with held:
        yield


def file_name(name: str) -> str:
    """Return a file name for an action's id or any other text: readable, without `/`, not too long."""
    safe = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip(".-") or "-"
    return safe if len(safe) <= 100 else f"{safe[:83]}-{digest.of_bytes(name.encode())[:16]}"
