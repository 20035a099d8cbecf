"""Locks between processes and threads. Taking one never blocks, so that a caller who waits can be interrupted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gpuforge import digest

if TYPE_CHECKING:
    from filelock import FileLock

_POLL = 0.01  # seconds


class Claim:
    """A lock that this process has until `release`, or to the end of a `with`."""

    def __init__(self, lock: FileLock) -> None:
        self._lock = lock

    def release(self) -> None:
        """Release it."""
        self._lock.release(force=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def claim(path: Path) -> Claim | None:
    """Take the lock at `path` if it is free, else return None.

    The file stays when the lock is released: removing it would let two processes hold "the same" lock.
    Raises OSError when the file cannot be made.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return Claim(lock)


def wait(path: Path) -> FileLock:
    """Return the lock at `path` for a `with` that waits for it: only for locks that are held for moments."""
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path, thread_local=False, poll_interval=_POLL)


def file_name(name: str) -> str:
    """Return a file name for an action's id or any other text: readable, without `/`, not too long."""
    safe = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip(".-") or "-"
    return safe if len(safe) <= 100 else f"{safe[:83]}-{digest.of_bytes(name.encode())[:16]}"
