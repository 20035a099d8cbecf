"""A store and a ledger in memory, for tests: nothing outlives the process."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from gpuforge.execute.entry import StoreEntry
from gpuforge.execute.ledger import Ledger, LedgerEntry
from gpuforge.execute.store import Stored


class MemoryStore:
    """A store whose index is a dictionary; outputs stay where they were made, in folders below `home`."""

    def __init__(self, home: Path) -> None:
        self.entries: dict[str, Stored] = {}
        self.damaged: dict[str, str] = {}
        self._home = home
        self._locks: dict[str, threading.Lock] = {}

    def get(self, key: str, *, links_out: bool = True) -> Stored | None:
        """Return the entry unless it is listed in `damaged`."""
        return None if key in self.damaged else self.entries.get(key)

    def damage(self, key: str) -> str:
        """Return the text for the entry in `damaged`."""
        return self.damaged.get(key, "")

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Make an empty folder, which stays."""
        yield Path(tempfile.mkdtemp(dir=self._home))

    def commit(self, key: str, folder: Path, entry: StoreEntry, *, links_out: bool = True) -> Stored:
        """Keep the entry unless there is one."""
        self.damaged.pop(key, None)
        return self.entries.setdefault(key, Stored(key, folder, entry))

    def alias(self, key: str, other: str) -> None:
        """Add a second key for an entry."""
        self.damaged.pop(key, None)
        self.entries[key] = self.entries[other]

    @contextmanager
    def _releasing(self, lock: threading.Lock) -> Iterator[None]:
        try:
            yield
        finally:
            lock.release()

    def claim(self, key: str) -> AbstractContextManager[Any] | None:
        """Claim the work on `key` within this process."""
        lock = self._locks.setdefault(key, threading.Lock())
        return self._releasing(lock) if lock.acquire(blocking=False) else None

    def present(self) -> AbstractContextManager[None]:
        """Nothing to do: a memory store is not pruned."""
        return nullcontext()


class MemoryLedger(Ledger):
    """A ledger in a list."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.entries: list[LedgerEntry] = []

    def append(self, entry: LedgerEntry) -> None:
        """Write one entry down."""
        self.entries.append(entry)

    def _catch_up(self) -> None:
        for entry in self.entries:
            self._note(entry)
