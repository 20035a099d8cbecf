"""The store that several machines share: objects, read and written through a store in a folder of this machine.

`entries/KK/KEY/record.json` is written last, and once; beside it lies the content of the files. An entry counts only if
it is complete. Entries of others are treated as hostile until they are unpacked and checked against their records.
"""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from gpuforge import digest, locks, tree
from gpuforge.cluster import contents
from gpuforge.cluster.folder import connect
from gpuforge.cluster.leases import Leases, present
from gpuforge.cluster.objects import MOST, Objects
from gpuforge.cluster.record import (
    Alias,
    SharedEntry,
    content_name,
    from_bytes,
    record_name,
    to_bytes,
    used_name,
)
from gpuforge.execute import upkeep
from gpuforge.execute.entry import StoreEntry
from gpuforge.execute.store import FolderStore, Stored

MARK = "shared"  # in an entry of this machine: its names in shared stores
USED = 3600.0  # seconds after which the use of an entry is written down again


class SharedStore:
    """A shared store; see `Store` for its methods. `grown` is called with the bytes that the folder grew by."""

    def __init__(
        self, local: FolderStore, objects: Objects, *, grown: Callable[[int], None] = lambda _: None
    ) -> None:
        self.local, self.objects = local, objects
        self._id = digest.of_bytes(objects.url.encode())[:16]
        self._leases = Leases(objects, _home(local.root))
        self._refused: dict[str, tuple[str, bytes]] = {}  # by key: why, and the record
        self._grown = grown

    def get(self, key: str, *, links_out: bool = True) -> Stored | None:
        """Return the entry, this machine's own or fetched; an entry that only this machine has is shared now.

        Unless `links_out`, a fetched entry with links that lead out of its outputs is refused.
        """
        stored = self.local.get(key)
        if stored is None:
            with locks.wait(self.local.root / "locks" / f"{key}.fetch"):
                stored = self.local.get(key) or self._fetch(key, links_out=links_out)
        if stored is not None:
            self._share(key, stored)
        return stored

    def damage(self, key: str) -> str:
        """Return how an existing entry is damaged, else an empty string."""
        return self._refused[key][0] if key in self._refused else self.local.damage(key)

    def scratch(self) -> AbstractContextManager[Path]:
        """Make an empty folder for outputs on the disk of this machine's store."""
        return self.local.scratch()

    def commit(self, key: str, folder: Path, entry: StoreEntry, *, links_out: bool = True) -> Stored:
        """Keep the outputs here, then share them; if another machine was faster, its outputs are kept instead.

        If `get` would refuse those, this machine's replace them.
        """
        stored = self.local.commit(key, folder, entry)
        self._grown(sum(file.size for file in entry.files))
        if not self._push(key, stored):
            stored = self._agreed(key, stored, links_out=links_out)
        self._mark(key, stored)
        return stored

    def _agreed(self, key: str, mine: Stored, *, links_out: bool) -> Stored:
        """Return the entry of the shared store, which replaces this machine's own if they differ."""
        data = self.objects.read(record_name(key), MOST) or b""
        with self.local.scratch() as out:
            try:
                theirs = from_bytes(key, data)
                if isinstance(theirs, Alias) or theirs.entry.files == mine.entry.files:
                    return mine
                self._unpack(key, theirs, out, links_out=links_out)
            except ValueError as error:
                self._refused[key] = _reason(error), data
                self._push(key, mine)
                return mine
            tree.remove(self.local.set_aside(key))
            return self.local.commit(key, out, theirs.entry)

    def alias(self, key: str, other: str) -> None:
        """Let an entry that is there, `other`, be found by `key` too."""
        self.local.alias(key, other)
        if (stored := self.get(other)) is not None:
            self._share(key, stored)

    def claim(self, key: str) -> AbstractContextManager[Any] | None:
        """Claim the work on `key`, across all processes of all machines; None while another has it."""
        if not self._leases.is_due(key) or (turn := self.local.claim(key)) is None:
            return None
        with ExitStack() as undo:
            undo.enter_context(turn)
            lease = self._leases.take(key)
            if lease is None:
                return None
            undo.push(lease)
            return undo.pop_all()

    def present(self) -> AbstractContextManager[None]:
        """Register as a build that uses the store: others do not prune entries that it got."""
        return present(self._leases)

    def _shared_entry(self, key: str) -> SharedEntry | None:
        with suppress(ValueError):
            record = from_bytes(key, self.objects.read(record_name(key)) or b"")
            return record if isinstance(record, SharedEntry) else None
        return None

    def _fetch(self, key: str, *, links_out: bool) -> Stored | None:
        """Bring an entry into this machine's store; None if it is not there, or is refused."""
        data = self.objects.read(record_name(key), MOST)
        if data is None:
            return None
        try:
            record = from_bytes(key, data)
            if isinstance(record, Alias):
                return self._fetch_other(key, record.key, links_out=links_out)
            return self._unpacked(key, record, links_out=links_out)
        except ValueError as error:
            self._refused[key] = _reason(error), data
            return None

    def _fetch_other(self, key: str, other: str, *, links_out: bool) -> Stored | None:
        if self.local.get(other) is None:
            record = self._shared_entry(other)
            if record is None:
                msg = "it is another name of an entry that is gone"
                raise ValueError(msg)
            self._unpacked(other, record, links_out=links_out)
        self.local.alias(key, other)
        return self.local.get(key)

    def _unpack(self, key: str, record: SharedEntry, out: Path, *, links_out: bool) -> None:
        with self.local.scratch() as parts:
            unpack(self.objects, key, record, parts, out)
        contents.link(out, record.entry, links_out=links_out)

    def _unpacked(self, key: str, record: SharedEntry, *, links_out: bool) -> Stored:
        """Fetch an entry, check it and keep it; raises ValueError if it is not that of its record."""
        with self.local.scratch() as out:
            self._unpack(key, record, out, links_out=links_out)
            stored = self.local.commit(key, out, record.entry)
        self._mark(key, stored)
        self.objects.put(used_name(key), b"")
        self._refused.pop(key, None)
        self._grown(sum(file.size for file in record.entry.files))
        return stored

    def _share(self, key: str, stored: Stored) -> None:
        """Share an entry of this machine under one of its names, and write down that it is used."""
        own = stored.folder.parent.name
        marked = self._marks(stored)
        if own not in marked:
            self._push(own, stored)
            self._mark(own, stored)
        if key not in {own, *marked}:
            self._create(key, to_bytes(key, Alias(own)))
            self._mark(key, stored)
        mark = stored.folder.parent / MARK
        if time.time() - mark.stat().st_mtime > USED:
            self._push(own, stored)  # it may have been pruned
            self.objects.put(used_name(own), b"")
            os.utime(mark)

    def _push(self, key: str, stored: Stored) -> bool:
        """Upload an entry; False if the shared store has one of that name."""
        data = self.objects.read(record_name(key))
        if data and not self._is_refused(key, data):
            return False
        with self.local.scratch() as parts:
            content = contents.pack(stored.folder, stored.entry, parts / "content")
            self.objects.upload(parts / "content", content_name(key, content.token))
        record = to_bytes(key, contents.described(stored.folder, stored.entry, content))
        if self._create(key, record):
            return True
        self.objects.remove(content_name(key, content.token))
        return False

    def _create(self, key: str, record: bytes) -> bool:
        """Write a record unless a sound one is there; a refused one is replaced."""
        name = record_name(key)
        if self.objects.create(name, record):
            return True
        there = self.objects.read(name)
        if there == record:
            return True  # the answer to a first try was lost
        if not there or self._is_refused(key, there):
            self.objects.remove(name)
            self._refused.pop(key, None)
            return self.objects.create(name, record)
        return False

    def _is_refused(self, key: str, record: bytes) -> bool:
        return key in self._refused and self._refused[key][1] == record

    def _marks(self, stored: Stored) -> set[str]:
        """Return the names under which the shared store has an entry of this machine."""
        try:
            lines = (stored.folder.parent / MARK).read_text(encoding="ascii").splitlines()
        except (OSError, ValueError):
            return set()
        return {line.partition(" ")[2] for line in lines if line.startswith(f"{self._id} ")}

    def _mark(self, key: str, stored: Stored) -> None:
        with (stored.folder.parent / MARK).open("a", encoding="ascii") as stream:
            stream.write(f"{self._id} {key}\n")


def unpack(objects: Objects, key: str, record: SharedEntry, parts: Path, out: Path) -> None:
    """Fetch an entry's content into `parts` and unpack it; raises ValueError if it is not that of its record."""
    packed, content = parts / "content", record.content
    if not objects.download(content_name(key, content.token), packed, content.size):
        msg = "its content is gone, or is not a file of its size"
        raise ValueError(msg)
    if digest.of_file(packed) != content.sha256:
        msg = "its content is not what was stored"
        raise ValueError(msg)
    for folder in record.folders:
        (out / folder).mkdir(parents=True)
    contents.unpack(packed, out, record)


def _reason(error: ValueError) -> str:
    return f"in the shared store, {error}"


def _home(root: Path) -> str:
    """Return the name of this machine's store: the same in all processes that share its locks."""
    place = root / "home"
    with locks.wait(root / "locks" / "home"):
        with suppress(OSError):
            return place.read_text(encoding="ascii")
        name = uuid4().hex
        place.write_text(name, encoding="ascii")
        return name


MOST_LOCAL = 100 * 10**9  # bytes of this machine's part
_STEP = 10  # it may grow by a tenth of that before it is measured again


def opened(root: Path, url: str, most: int = MOST_LOCAL) -> SharedStore:
    """Return the shared store at `url`, with `root` as this machine's part of at most `most` bytes.

    Entries that this process uses, or that are not shared yet, stay even beyond that. Raises the errors of `connect`.
    """
    local = FolderStore(root)
    return SharedStore(local, connect(url), grown=_Limit(local, most).grown)


class _Limit:
    def __init__(self, local: FolderStore, most: int) -> None:
        self._local, self._most = local, most
        self._left = 0  # bytes until the next look; the first is at once

    def grown(self, size: int) -> None:
        """Remove the least recently used entries, if enough new ones have come since the last time."""
        self._left -= size
        if self._left < 0:
            self._left = self._most // _STEP
            trim(self._local, self._most)


def trim(local: FolderStore, most: int) -> None:
    """Remove entries, the least recently used first, until no more than `most` bytes are left."""
    found = upkeep.entries(local)
    since = local.in_use_since()
    own = {each.key for each in found if each.used >= since or not (each.place / MARK).exists()}
    for each in upkeep.to_prune(found, unused_since=None, most=most, in_use=own):
        upkeep.discard(local, each)
