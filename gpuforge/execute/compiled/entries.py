"""The entries of one project's compiler cache, in a place that machines share."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuforge.errors import GpuforgeError
from gpuforge.execute.compiled.place import CachePlace
from gpuforge.execute.shared.names import COMPILED

MOST = 128 << 20  # bytes of an entry
ROOM = 10 << 30  # bytes that one run may write
_SUM = hashlib.sha256().digest_size


class Entries:
    """The entries of the project `family`, by sccache's keys; a project cannot name an entry of another.

    Each begins with the sha256 of its bytes: a damaged one counts as missing. `connect` is called at the first use. A
    place that fails once is not used again: `tell` gets the reason, and builds compile without it.
    """

    def __init__(self, connect: Callable[[], CachePlace], family: str, tell: Callable[[str], None]) -> None:
        self._connect, self._family, self._tell = connect, family, tell
        self._guard = threading.Lock()
        self._place: CachePlace | None = None
        self._failed = False
        self._room = ROOM

    def read(self, key: str) -> bytes | None:
        """Return an entry's bytes, or None if there is no such entry."""
        with self._use() as place:
            found = place.read(self._name(key), MOST + _SUM) if place else None
            if found and hashlib.sha256(found[_SUM:]).digest() == found[:_SUM]:
                return found[_SUM:]
        return None

    def write(self, key: str, data: bytes) -> bool:
        """Write an entry; False if there is no more room for it, or the place fails."""
        with self._guard:
            self._room -= len(data)
            if self._room < 0:
                return False
        with self._use() as place:
            if place:
                place.put(self._name(key), hashlib.sha256(data).digest() + data)
                return True
        return False

    def _name(self, key: str) -> str:
        return f"{COMPILED}/{self._family}/{key[:2]}/{key}"

    @contextmanager
    def _use(self) -> Iterator[CachePlace | None]:
        """Return the place, or None after its first failure, which is reported."""
        try:
            with self._guard:
                if not self._failed:
                    self._place = self._place or self._connect()
                place = None if self._failed else self._place
            yield place
        except GpuforgeError as error:
            with self._guard:
                is_first, self._failed = not self._failed, True
            if is_first:
                cause = error.diagnostics[0]
                hint = f" ({cause.hint})" if cause.hint else ""
                self._tell(f"note: builds go on without the shared compiler cache: {cause.message}{hint}")
