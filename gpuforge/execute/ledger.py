"""The ledger: the append-only record of finished actions, one JSON object a line."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gpuforge import locks


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One finished action: `time` in UTC (ISO 8601), `project` the manifest's path, `facts` its step's.

    `memory` is the most bytes that one of its processes took, 0 if that is not known.
    """

    time: str
    project: str
    id: str
    key: str
    facts: Mapping[str, str]
    seconds: float
    result: Literal["ok", "failed"]
    log: str
    memory: int = 0


class Ledger:
    """A ledger in one file, shared by all gpuforge processes of a user."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_to = 0  # bytes; whole lines before this are in `_newest`
        self._newest: dict[tuple[str, str], LedgerEntry] = {}
        self._memory: dict[tuple[str, str], int] = {}  # of the same work for any cell

    def append(self, entry: LedgerEntry) -> None:
        """Write one entry durably: one write and one fsync, under a lock."""
        fields = {name: getattr(entry, name) for name in LedgerEntry.__slots__} | {"facts": dict(entry.facts)}
        line = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        with locks.wait(self.path.with_name(f"{self.path.name}.lock")):
            stream = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                size = os.fstat(stream).st_size
                # a writer died in the middle of a line, which must not spoil this one
                if size > 0 and os.pread(stream, 1, size - 1) != b"\n":
                    line = b"\n" + line
                _write_whole(stream, line)
                os.fsync(stream)
            finally:
                os.close(stream)

    def last(self, project: str, action: str) -> LedgerEntry | None:
        """Return the newest entry of a project's action; lines that cannot be read are skipped."""
        self._catch_up()
        return self._newest.get((project, action))

    def memory(self, project: str, action: str) -> int:
        """Return how much memory a process of an action took, or of the same work for other cells; 0: not known."""
        own = self.last(project, action)
        return (own.memory if own else 0) or self._memory.get((project, action.rpartition("/")[2]), 0)

    def keys(self) -> dict[str, set[str]]:
        """Return all keys that the actions of each project have had."""
        found: dict[str, set[str]] = {}
        with suppress(FileNotFoundError), self.path.open("rb") as stream:
            for entry in filter(None, map(_parse, stream)):
                found.setdefault(entry.project, set()).add(entry.key)
        return found

    def _catch_up(self) -> None:
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._read_to)
                fresh = stream.read()
        except FileNotFoundError:
            return
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.splitlines():
            entry = _parse(line)
            if entry:
                self._note(entry)

    def _note(self, entry: LedgerEntry) -> None:
        self._newest[entry.project, entry.id] = entry
        if entry.memory:
            self._memory[entry.project, entry.id.rpartition("/")[2]] = entry.memory


def _write_whole(stream: int, line: bytes) -> None:
    """Write a whole line or nothing: on a full disk the written part is removed."""
    before = os.fstat(stream).st_size
    try:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(stream, rest) :]
    except OSError:
        os.ftruncate(stream, before)
        raise


def _parse(line: bytes) -> LedgerEntry | None:
    try:
        data: dict[str, Any] = json.loads(line)
        entry = LedgerEntry(**data)
    except (ValueError, TypeError, RecursionError):
        return None
    words = (entry.time, entry.project, entry.id, entry.key, entry.result, entry.log)
    is_sound = (
        isinstance(entry.facts, dict)
        and isinstance(entry.seconds, float | int)
        and isinstance(entry.memory, int)
    )
    return entry if is_sound and all(isinstance(word, str) for word in words) else None
