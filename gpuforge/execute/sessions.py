"""The processes that use a store: each has a folder of its own there, and a list of the entries that it has."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from uuid import uuid4

from gpuforge.execute import locks
from gpuforge.tree import remove

_TAKEN = "taken"  # in a process's folder: keys of entries, one a line


class Sessions:
    """The folders of all processes that use a store, and this one's, made with its first use."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._first = threading.Lock()
        self._own: Path | None = None
        self._taken: set[str] = set()

    def folder(self) -> Path:
        """Return this process's folder, whose lock ends with the process."""
        with self._first:
            if self._own is None or not self._own.is_dir():
                self._own = self._open()
            return self._own

    def alone(self, *, shared: bool = False) -> AbstractContextManager[None]:
        """Hold the lock under which entries are taken (`shared`) and removed."""
        return locks.locked(self._root / ".taking.lock", shared=shared)

    def has(self, key: str) -> bool:
        """Return whether this process has taken an entry."""
        return key in self._taken

    def take(self, key: str) -> None:
        """Write down that this process uses an entry: until its end, other processes do not remove it."""
        with (self.folder() / _TAKEN).open("a", encoding="ascii") as stream:
            stream.write(f"{key}\n")
        self._taken.add(key)

    def taken(self) -> set[str]:
        """Return the keys of the entries that live processes have, this one included."""
        found = set(self._taken)
        with locks.wait(self._root / ".lock"):  # so that no folder is seen before its process has locked it
            for folder in self._others():
                if not _is_dead(folder):
                    with suppress(FileNotFoundError):
                        found.update((folder / _TAKEN).read_text(encoding="ascii").split())
        return found

    def _others(self) -> Iterator[Path]:
        return (each for each in self._root.iterdir() if each.is_dir() and each != self._own)

    def _open(self) -> Path:
        with locks.wait(self._root / ".lock"):
            for folder in self._others():
                if _is_dead(folder):
                    with suppress(OSError):
                        remove(folder)
            folder = self._root / uuid4().hex
            folder.mkdir(mode=0o700)  # a container may write files of any mode, such as setuid
            claim = locks.claim(folder / ".lock")
        if claim is None:
            msg = f"{folder} was taken by another process"
            raise OSError(msg)
        weakref.finalize(self, _leave, folder, claim, os.getpid())
        return folder


def _is_dead(session: Path) -> bool:
    """Return whether the process of a folder has ended: it had the lock there."""
    claim = locks.claim(session / ".lock")
    if claim is not None:
        claim.release()
    return claim is not None


def _leave(folder: Path, claim: locks.Claim, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not remove its parent's folder
        with suppress(OSError):
            remove(folder)
        claim.release()
