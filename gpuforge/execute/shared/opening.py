"""Opens the store of a machine: its folder alone, or as a cache of a store that it shares with other machines."""

from __future__ import annotations

from pathlib import Path

from gpuforge.execute import upkeep
from gpuforge.execute.objects.connect import connect
from gpuforge.execute.shared.store import MARK, SharedStore
from gpuforge.execute.store import FolderStore

MOST = 100 * 10**9  # bytes of this machine's part
_STEP = 10  # it may grow by a tenth of that before it is measured again


def opened(root: Path, url: str, most: int = MOST) -> SharedStore:
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
    own = {each.key for each in found if not (each.place / MARK).exists()}
    for each in upkeep.to_prune(found, unused_since=None, most=most, in_use=local.taken() | own):
        upkeep.discard(local, each)
