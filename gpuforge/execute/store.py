"""The store: outputs of finished actions, found again by the action's key.

The entry of an action that is identified by the content of its inputs has a key of that content; the action's own key
is an alias of it (see `work`).
"""

import errno
import os
import shutil
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from gpuforge import digest, locks, tree
from gpuforge.errors import ActionError
from gpuforge.execute.entry import (
    StoreEntry,
    alias_from_bytes,
    alias_to_bytes,
    changes,
    damage,
    from_json,
    sealed,
    stamp,
    to_json,
    unsealed,
)
from gpuforge.tree import remove

ASIDE = "aside"  # in the store: damaged entries, by key
_LONGEST_RECORD = 1 << 30  # bytes; of a million files it has 200 MB
_LONGEST_ALIAS = 1 << 10  # bytes
_BEGAN = ".began"  # in a process's folder; its time is the process's first use of the store
_LARGE = 100_000_000  # bytes: a toolkit; reading it takes part of a second
_SHARED = 16_384  # bytes of the smallest file that entries share; of torch such files are nearly everything
_FILES = "files"  # in the store: a name for each shared file, by its sha256


class Stored(NamedTuple):
    """An entry of the store: `folder` holds the outputs under their names, read-only."""

    key: str
    folder: Path
    entry: StoreEntry

    def path(self, output: str) -> Path:
        """Return where an output lies; raises KeyError when the entry has none of that name."""
        if output not in self.entry.outputs:
            raise KeyError(output)
        return self.folder / output

    def content(self, output: str) -> str:
        """Return a digest of an output: of its files' names, content and executable bits."""
        files = [file for file in self.entry.files if PurePosixPath(file.path).parts[0] == output]
        return digest.of_output((file.path, file.sha256, file.link, file.executable) for file in files)


class Store(Protocol):
    """The port to the place of outputs. Every method raises OSError when the place fails."""

    def get(self, key: str, *, links_out: bool = True) -> Stored | None:
        """Return the entry if it is there and its bytes are those that were stored.

        Unless `links_out`, an entry that others made is refused if its links lead out of its outputs.
        """

    def damage(self, key: str) -> str:
        """Return what is wrong with an entry that is there but not whole, else an empty string."""

    def scratch(self) -> AbstractContextManager[Path]:
        """Make an empty folder on the store's own disk for outputs; gone afterwards if not committed."""

    def commit(self, key: str, folder: Path, entry: StoreEntry, *, links_out: bool = True) -> Stored:
        """Keep the outputs in `folder`, which is moved; if another process was faster, keep and return its outputs.

        `links_out` is as for `get`.
        """

    def alias(self, key: str, other: str) -> None:
        """Let an entry that is there, `other`, be found by `key` too."""

    def claim(self, key: str) -> AbstractContextManager[Any] | None:
        """Claim the work on `key`, across all processes; None while another has it."""

    def present(self) -> AbstractContextManager[None]:
        """Register a build that uses the store: during the `with`, entries that the build got are not pruned."""


class FolderStore:
    """A store in a folder: `ROOT/KEY[:2]/KEY/{record.json,out/NAME}`; entries appear whole, by rename.

    An alias is a file in the place of the folder. Records and aliases have a checksum of their own key, so that none
    counts in the place of another. A record's time is when the entry was last used. A larger file is there once, with a
    hard link for each entry that has it: torch's libraries are in the environments of several projects.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._tmp = root / "tmp"  # with a folder for each process that uses the store
        self._guard = threading.Lock()
        self._own: Path | None = None  # this process's
        self._used: set[str] = set()  # keys of entries that this process has got
        self._sound: set[str] = set()  # keys of entries whose bytes were read

    def get(self, key: str, *, links_out: bool = True) -> Stored | None:
        """Return the entry if it is there and its bytes are those that were stored.

        A process reads them once. The bytes of a large entry are not read again while its times show that nothing was
        written since.
        """
        found = self._look(key)
        return found if isinstance(found, Stored) else None

    def damage(self, key: str) -> str:
        """Return what is wrong with an entry that is there but not whole, else an empty string."""
        found = self._look(key)
        return "" if isinstance(found, Stored) else found

    def _look(self, key: str) -> Stored | str:
        place = self.place(key)
        try:
            place.lstat()  # of a new plan nothing is there
            if other := alias_of(place):
                place = self.place(other)
            entry = self._record(place)
        except FileNotFoundError:
            return "its record is gone" if place.exists() else ""
        except OSError as error:  # also where something else lies there, such as a pipe
            return f"its record cannot be read: {error.strerror}"
        except ValueError as error:
            return str(error)
        wrong = damage(place / "out", entry) or self._changes(place, entry)
        return wrong or Stored(key, place / "out", entry)

    def _record(self, place: Path) -> StoreEntry:
        """Return an entry's record; until this process ends, no other one removes the entry."""
        record = place / "record.json"
        if place.name not in self._used and record.exists():
            with suppress(OSError):  # a read-only store
                self._folder()  # first: what was used since its start stays
                with self._lock():
                    if record.exists():
                        os.utime(record)
                        self._used.add(place.name)
        return read_record(place)

    def _changes(self, place: Path, entry: StoreEntry) -> str:
        """Return how an entry's bytes differ from its record, or an empty string."""
        if place.name in self._sound:
            return ""
        try:
            if not (_is_large(entry) and self._stamped(place) == stamp(place.name, place / "out")):
                wrong = changes(place / "out", entry)
                if wrong:
                    return wrong
                self._stamp(place, entry)
        except OSError as error:
            return f"{error.filename} cannot be read: {error.strerror}"
        except ActionError as error:  # no file that can be stored
            return str(error)
        self._sound.add(place.name)
        return ""

    def _stamped(self, place: Path) -> str:
        try:
            return (place / "stamp").read_text(encoding="ascii")
        except (OSError, ValueError):
            return ""

    def _stamp(self, place: Path, entry: StoreEntry) -> None:
        """Write down when a large entry was last checked completely."""
        if not _is_large(entry):
            return
        with suppress(OSError):  # a read-only store: its bytes are read each time
            new = self._folder() / uuid4().hex
            new.write_text(stamp(place.name, place / "out"), encoding="ascii")
            new.rename(place / "stamp")

    def place(self, key: str) -> Path:
        """Return where the entry of a key lies, or its alias."""
        return self.root.joinpath(key[:2], key)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Make an empty folder on the store's own disk for outputs; gone afterwards if not committed."""
        box = self._folder() / uuid4().hex
        folder = box / "out"
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            with suppress(OSError):  # the next process tries to remove it again
                remove(box)

    def commit(self, key: str, folder: Path, entry: StoreEntry, *, links_out: bool = True) -> Stored:
        """Keep the outputs in `folder` (made by `scratch`; it is moved) under `key`; the first process wins."""
        self._keep(folder, entry)
        for other in {each.name for each in folder.iterdir()} - {*entry.outputs}:
            _discard(folder / other)
        box = folder.parent
        with (box / "record.json").open("wb") as stream:
            stream.write(sealed(key, to_json(entry).encode()))
            stream.flush()
            os.fsync(stream.fileno())
        place = self.place(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError, IsADirectoryError):  # an alias
            place.unlink()
        if self.damage(key):
            self.set_aside(key)
        try:
            box.rename(place)
            self._used.add(key)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                raise
        else:
            self._stamp(place, entry)
            self._sound.add(key)
        stored = self.get(key)
        if stored is None:
            msg = f"the store at {self.root} did not keep what was put into it: {self.damage(key)}"
            raise OSError(msg)
        return stored

    def _keep(self, folder: Path, entry: StoreEntry) -> None:
        """Take write permission from files, and let entries share larger ones.

        Folders stay writable: their owner can delete the store with `rm -r`. A file with further hard links, as uv and
        CMake make them, is copied: it could be changed by the others, and these would lose their write permission. But
        an action may link files of other entries, as they were read a moment ago.
        """
        for file in entry.files:
            if file.link:
                continue
            path, mode = folder / file.path, 0o555 if file.executable else 0o444
            kept = self.root / _FILES / file.sha256[:2] / f"{file.sha256}{'-x' if file.executable else ''}"
            is_shared = file.size >= _SHARED
            if path.stat().st_nlink > 1:
                if is_shared and kept.exists() and kept.samefile(path):
                    continue
                own = path.with_name(uuid4().hex)
                shutil.copy(path, own)
                own.rename(path)
            path.chmod(mode)
            if is_shared:
                self._share(path, kept, folder.parent / "shared", file.sha256)

    def _share(self, path: Path, kept: Path, own: Path, sha256: str) -> None:
        """Replace a file by a link to the one that other entries have, after reading that: it may be damaged."""
        kept.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # no hard links here, or too many
            try:
                os.link(path, kept)
            except FileExistsError:
                sound = digest.of_file(kept) == sha256
                os.link(*((kept, own) if sound else (path, own)))
                own.rename(path if sound else kept)

    def sweep(self) -> None:
        """Remove shared files that no entry has any more."""
        for kept in self.root.glob(f"{_FILES}/*/*"):
            with suppress(FileNotFoundError):
                if kept.stat().st_nlink == 1:
                    kept.unlink()

    def alias(self, key: str, other: str) -> None:
        """Let an entry that is there, `other`, be found by `key` too."""
        place = self.place(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            remove(place)  # a damaged one
        new = self._folder() / uuid4().hex
        new.write_bytes(alias_to_bytes(key, other))
        new.rename(place)

    def set_aside(self, key: str) -> Path:
        """Move a damaged entry aside, so that it is made again, and return its new place."""
        place, aside = self.place(key), self.root / ASIDE / key
        aside.parent.mkdir(exist_ok=True)
        with self._lock():
            remove(aside)
            with suppress(FileNotFoundError):
                place.rename(aside)
        self._sound.discard(key)
        return aside

    def in_use_since(self) -> float:
        """Return the start of the oldest live process with the store: entries used since then stay."""
        with self._lock():
            return self._oldest()

    def discard(self, key: str, unused_since: float) -> bool:
        """Remove an entry unless it was used after that time, or by a live process; return whether it is gone."""
        place, grave = self.place(key), self._folder() / uuid4().hex
        with self._lock():
            with suppress(FileNotFoundError):  # without a record, nothing can use it
                used = (place / "record.json").stat().st_mtime
                if used > unused_since or used >= self._oldest() or key in self._used:
                    return False
            with suppress(FileNotFoundError):
                place.rename(grave)
        remove(grave)
        return True

    def _lock(self) -> AbstractContextManager[Any]:
        """Return the lock under which entries are taken and removed, and processes come and go."""
        return locks.wait(self._tmp / ".lock")

    def _folder(self) -> Path:
        """Return this process's folder, whose lock ends with the process; those of dead ones are removed."""
        with self._guard:
            if self._own is None or not self._own.is_dir():
                with self._lock():  # so that no folder is seen before its process has locked it
                    for folder in self._others():
                        if _is_dead(folder):
                            with suppress(OSError):
                                remove(folder)
                    self._own = folder = self._tmp / uuid4().hex
                    folder.mkdir(mode=0o700)  # a container may write files of any mode, such as setuid
                    (folder / _BEGAN).touch()
                    claim = locks.claim(folder / ".lock")
                weakref.finalize(self, _leave, folder, claim, os.getpid())
            return self._own

    def _others(self) -> list[Path]:
        return [each for each in self._tmp.iterdir() if each.is_dir() and each != self._own]

    def _oldest(self) -> float:
        """Return the start of the oldest live process; that of this one is the first use of its folder."""
        living = [each for each in self._others() if not _is_dead(each)]
        found = [time.time()]
        for folder in [*living, *([self._own] if self._own else [])]:
            with suppress(FileNotFoundError):
                found.append((folder / _BEGAN).stat().st_mtime)
        return min(found)

    def claim(self, key: str) -> AbstractContextManager[Any] | None:
        """Claim the work on `key`, across all processes; None while another has it."""
        return locks.claim(self.root / "locks" / key)

    def present(self) -> AbstractContextManager[None]:
        """Do nothing: no other machine prunes this folder."""
        return nullcontext()


def _is_dead(folder: Path) -> bool:
    """Return whether the process of a folder has ended: it had the lock there."""
    claim = locks.claim(folder / ".lock")
    if claim is not None:
        claim.release()
    return claim is not None


def _leave(folder: Path, claim: locks.Claim | None, owner: int) -> None:
    if os.getpid() == owner and claim:  # a forked child must not remove its parent's folder
        with suppress(OSError):
            remove(folder)
        claim.release()


def read_record(place: Path) -> StoreEntry:
    """Return the record of the entry in a folder; raises OSError, and ValueError with a sentence of what is wrong."""
    text = unsealed(place.name, tree.read(place, "record.json", _LONGEST_RECORD)).decode(errors="replace")
    try:
        return from_json(text)
    except ValueError as error:
        msg = f"its record cannot be read: {error}"
        raise ValueError(msg) from error


def alias_of(place: Path) -> str:
    """Return the key of the entry that an alias names, "" for what is none; raises as `read_record`."""
    if not place.is_file():
        return ""
    return alias_from_bytes(place.name, tree.read(place.parent, place.name, _LONGEST_ALIAS))


def _is_large(entry: StoreEntry) -> bool:
    return sum(file.size for file in entry.files) > _LARGE


def _discard(path: Path) -> None:
    """Remove a file or folder that is not an output."""
    if path.is_dir() and not path.is_symlink():
        remove(path)
    else:
        path.unlink()
