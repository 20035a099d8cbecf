"""Compiled kernels on disk: one checked file for each entry, in two levels of folders, within a size limit."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .cache_entry import BadEntryError, CacheEntry, decode, encode
from .cache_key import CacheKey
from .document import open_file

_SUFFIX = ".kernel"
_UNFINISHED = ".part"
_LOCK = "lock"
_ABANDONED = 3600.0  # seconds after which an unfinished file is abandoned
_TOUCH_EVERY = 600.0  # seconds; the precision of an entry's time of use, which spares a shared disk
_LARGEST = 1 << 30  # bytes of an entry that is read, unless the limit is larger
_KEEP = 0.8  # of the limit, so that not every new entry causes a pruning


class FolderUnusable(Exception):  # noqa: N818  a state of the machine
    """The folder cannot be used as a cache; the message is the reason."""


@dataclass(frozen=True)
class File:
    """A file of the cache: its digest, its size in bytes, and its time of last use."""

    digest: str
    path: Path
    size: int
    used: float


class CacheFolder:
    """A folder of entries, shared by threads and processes. Readers need no lock, as a file is complete or absent.

    `limit` is in bytes. Entries that others write at the same time are counted at the next pruning.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.limit = limit
        self.lock_file = path / _LOCK
        self._counted: int | None = None  # bytes at the last count, plus those written since

    def prepare(self) -> None:
        """Make the folder; raises FolderUnusable if others could put code into it, or it cannot be made."""
        try:
            if not self.path.parent.exists():  # not for all users, with any umask
                self.path.parent.mkdir(mode=0o775, parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            found = self.path.stat()
        except OSError as error:
            raise FolderUnusable(f"{self.path}: {error.strerror or error}") from error
        if found.st_uid != os.geteuid():
            raise FolderUnusable(f"{self.path} belongs to another user, who could put code into it")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise FolderUnusable(f"{self.path} can be written by other users (chmod go-w {self.path})")

    def read(self, digest: str, *, touch: bool = True) -> CacheEntry | None:
        """Return the entry stored under `digest`; a missing, damaged or unreadable one is None.

        With `touch` it counts as used now.
        """
        path = self._file(digest)
        try:
            with open_file(path) as file:
                seen = os.fstat(file.fileno())
                if seen.st_size > max(self.limit, _LARGEST):
                    return None
                entry = decode(file.read(), digest)
            age = time.time() - seen.st_mtime
        except (OSError, ValueError):
            return None
        if touch and age > _TOUCH_EVERY:
            with contextlib.suppress(OSError):
                os.utime(path)
        return entry

    def write(self, key: CacheKey, payload: bytes) -> None:
        """Store an entry by rename, then keep within the limit. Raises OSError, and leaves nothing half-written.

        An existing file is replaced without being read, so two writers of one key do no harm. An entry larger than the
        limit is not stored.
        """
        data = encode(key, payload)
        if len(data) > self.limit:
            return
        path = self._file(key.digest)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{_UNFINISHED}")
        try:
            with unfinished.open("xb") as file:
                file.write(data)
            unfinished.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise
        self._make_room(len(data))

    def remove(self, digest: str) -> bool:
        """Remove one entry; return whether there was one."""
        try:
            self._file(digest).unlink()
        except OSError:
            return False
        return True

    def files(self) -> Iterator[File]:
        """Yield the entries' files, the least recently used first; those that vanish meanwhile are left out."""
        found = []
        for path in self._paths(_SUFFIX):
            with contextlib.suppress(OSError):
                seen = path.stat()
                found.append(File(path.stem, path, seen.st_size, seen.st_mtime))
        yield from sorted(found, key=lambda file: (file.used, file.digest))

    def check(self, file: File) -> str:
        """Return the problem of an entry's file, "" for a good one."""
        try:
            with open_file(file.path) as stream:
                if file.size > max(self.limit, _LARGEST):
                    return "it is larger than any entry"
                decode(stream.read(), file.digest)
        except BadEntryError as error:
            return str(error)
        except (OSError, ValueError) as error:
            return f"it cannot be read: {error}"
        return ""

    def prune(self, limit: int | None = None) -> list[File]:
        """Remove leftovers of killed processes, then the least recently used entries beyond `limit` bytes."""
        for path in self._paths(_UNFINISHED):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    path.unlink()
        files = list(self.files())
        total = sum(file.size for file in files)
        removed = []
        for file in files:
            if total <= (self.limit if limit is None else limit):
                break
            if self.remove(file.digest):
                removed.append(file)
            total -= file.size
        self._counted = total
        return removed

    def clear(self) -> int:
        """Remove all entries and unfinished files; return how many entries there were."""
        for path in self._paths(_UNFINISHED):
            with contextlib.suppress(OSError):
                path.unlink()
        return len(self.prune(limit=-1))

    def _make_room(self, added: int) -> None:
        if self._counted is None:
            self._counted = sum(file.size for file in self.files())
        else:
            self._counted += added
        if self._counted > self.limit:
            self.prune(int(self.limit * _KEEP))

    def _file(self, digest: str) -> Path:
        return self.path / digest[:2] / f"{digest}{_SUFFIX}"

    def _paths(self, suffix: str) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            for folder in sorted(self.path.iterdir()):
                if len(folder.name) == 2:
                    yield from _named(folder, suffix)


def _named(folder: Path, suffix: str) -> list[Path]:
    """Return the files of a folder with this suffix; empty if it cannot be listed."""
    try:
        return [path for path in folder.iterdir() if path.name.endswith(suffix)]
    except OSError:
        return []
