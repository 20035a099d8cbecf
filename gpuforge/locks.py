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
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Claim:
    """A lock that this process has until `release`, or to the end of a `with`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def claim(path: Path) -> Claim | None:
    """Take the lock at `path` if it is free, else return None.

    The file stays when the lock is released: removing it would let two processes hold "the same" lock.
    Raises OSError when the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, _FLAGS, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return Claim(descriptor)


@contextmanager
def wait(path: Path) -> Iterator[None]:
    """Wait for the lock at `path`, and have it during a `with`: only for locks that are held for moments."""
    while (turn := claim(path)) is None:
        time.sleep(_POLL)
    with turn:
        yield


def file_name(name: str) -> str:
    """Return a file name for an action's id or any other text: readable, without `/`, not too long."""
    safe = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip(".-") or "-"
    return safe if len(safe) <= 100 else f"{safe[:83]}-{digest.of_bytes(name.encode())[:16]}"
