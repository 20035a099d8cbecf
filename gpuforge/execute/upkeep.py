"""Upkeep of a store: lists entries with their sizes and last use, checks every byte, removes entries."""

import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gpuforge import tree
from gpuforge.errors import ActionError
from gpuforge.execute.entry import StoreEntry, changes
from gpuforge.execute.store import ASIDE, FolderStore, alias_of, read_record

_KEY_LENGTH = 64  # hexadecimal digits of a sha256
_READERS = 4  # threads; hashing lets others run


class ListedEntry(NamedTuple):
    """An entry of a store: its record (None if it cannot be read), its bytes, its last use and its aliases."""

    key: str
    place: Path
    record: StoreEntry | None
    size: int  # bytes
    used: float  # seconds since the epoch
    aliases: tuple[Path, ...] = ()

    @property
    def action(self) -> str:
        """The id of the action that made it."""
        return self.record.action if self.record else ""

    @property
    def kind(self) -> str:
        """The name of its first output: "toolkit", "environment", "wheel", "fatbin"."""
        return Path(self.record.outputs[0]).stem if self.record and self.record.outputs else "unreadable"


def entries(store: FolderStore) -> list[ListedEntry]:
    """Return all entries of a store, the least recently used first."""
    names: dict[str, list[Path]] = {}
    places = []
    for place in _places(store):
        if other := _named(place):
            names.setdefault(other, []).append(place)
        else:
            places.append(place)
    found = (_listed_entry(place, tuple(names.get(place.name, ()))) for place in places)
    return sorted((each for each in found if each), key=lambda each: (each.used, each.key))


def _places(store: FolderStore) -> Iterator[Path]:
    return store.root.glob("[0-9a-f][0-9a-f]/" + "[0-9a-f]" * _KEY_LENGTH)


def _named(place: Path) -> str:
    """Return the entry that an alias names; a damaged alias is listed as an entry that cannot be read."""
    with suppress(OSError, ValueError):
        return alias_of(place)
    return ""


def _listed_entry(place: Path, aliases: tuple[Path, ...]) -> ListedEntry | None:
    record = None
    try:
        used = place.stat().st_mtime
        with suppress(OSError, ValueError):
            record = read_record(place)
            used = (place / "record.json").stat().st_mtime
    except FileNotFoundError:  # another process removed it just now
        return None
    out = f"{place}/out/"  # text: an entry may have 50,000 files, and joining paths took most of the time
    size = sum(_share(out + file.path, file.size) for file in record.files) if record else disk_size(place)
    return ListedEntry(place.name, place, record, size, used, aliases)


def _share(path: str, size: int) -> int:
    """Return an entry's part of the bytes of a file, which several entries may have together."""
    try:
        links = os.lstat(path).st_nlink
    except OSError:
        return size
    return size // max(1, links - 1)  # one is the store's own


def disk_size(folder: Path) -> int:
    """Return the total size of the files below a folder, without those that vanish meanwhile."""
    try:
        return sum(each.stat.st_size for each in tree.walk(folder) if not each.is_folder)
    except FileNotFoundError:
        return disk_size(folder) if folder.is_dir() else 0
    except NotADirectoryError:
        return folder.lstat().st_size


class DamagedEntry(NamedTuple):
    """An entry whose bytes are not those that were stored: the reason, and its new place, None if it is made again."""

    entry: ListedEntry
    why: str
    aside: Path | None


def verify(store: FolderStore, found: Sequence[ListedEntry]) -> list[DamagedEntry]:
    """Read every byte of entries, and move damaged ones aside; KeyboardInterrupt ends it at once."""
    stop = threading.Event()

    def look(each: ListedEntry) -> tuple[ListedEntry, str]:
        return each, "" if stop.is_set() else _wrong(each, stop)

    damaged = []
    with ThreadPoolExecutor(min(_READERS, os.cpu_count() or 1)) as pool:
        try:
            for each, why in pool.map(look, found):
                if why:
                    damaged.append(DamagedEntry(each, why, _taken_away(store, each, stop)))
        except BaseException:
            stop.set()
            raise
    return damaged


def _wrong(each: ListedEntry, stop: threading.Event) -> str:
    try:
        alias_of(each.place)  # a sound one is not listed
        return changes(each.place / "out", read_record(each.place), stop.is_set)
    except InterruptedError:
        return ""
    except FileNotFoundError as error:
        gone = Path(error.filename).relative_to(each.place)
        return f"{gone} is gone" if each.place.is_dir() else ""  # removed just now
    except ValueError as error:
        return str(error)
    except OSError as error:
        return f"{Path(error.filename).name}: {error.strerror}"
    except ActionError as error:
        return error.diagnostics[0].message


def _taken_away(store: FolderStore, each: ListedEntry, stop: threading.Event) -> Path | None:
    turn = store.claim(each.key)
    if turn is None:
        return None
    with turn:
        return store.set_aside(each.key) if _wrong(each, stop) else None


def loose_names(store: FolderStore) -> list[Path]:
    """Return the aliases of entries that are gone."""
    named = ((place, _named(place)) for place in _places(store))
    return sorted(place for place, other in named if other and not store.place(other).exists())


def aside(store: FolderStore) -> list[Path]:
    """Return the damaged entries that were moved aside."""
    with suppress(FileNotFoundError):
        return sorted((store.root / ASIDE).iterdir())
    return []


def to_prune(
    found: Sequence[ListedEntry],
    *,
    unused_since: float | None,
    most: int | None,
    in_use: Collection[str] = (),
) -> Iterator[ListedEntry]:
    """Yield the entries, least recently used first, that were not used since a time, or exceed a total size.

    Entries whose keys are `in_use` stay, and count for the size.
    """
    left = sum(each.size for each in found)
    for each in found:
        is_old = unused_since is not None and each.used < unused_since
        if each.key not in in_use and (is_old or (most is not None and left > most)):
            left -= each.size
            yield each


def discard(store: FolderStore, each: ListedEntry) -> bool:
    """Remove an entry and its names unless a process has it or has used it just now; return whether it is gone."""
    if not store.discard(each.key, each.used):
        return False
    for name in each.aliases:
        if not each.place.exists():
            name.unlink(missing_ok=True)
    return True


def projects(found: Sequence[ListedEntry], uses: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """Return the projects of each entry by its key, from the keys that each project's actions had (`uses`)."""
    by_name: dict[str, set[str]] = {}
    for project, keys in uses.items():
        for key in keys:
            by_name.setdefault(key, set()).add(project)
    return {
        each.key: tuple(
            sorted({p for name in (each.key, *(a.name for a in each.aliases)) for p in by_name.get(name, ())})
        )
        for each in found
    }
