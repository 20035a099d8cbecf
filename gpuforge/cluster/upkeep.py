"""Upkeep of a shared store: lists entries with their sizes and last use, checks all bytes, removes entries."""

import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from gpuforge.cluster.leases import now, oldest
from gpuforge.cluster.objects import ListedObject, Objects
from gpuforge.cluster.record import (
    ENTRIES,
    USES,
    Alias,
    SharedEntry,
    from_bytes,
    is_key,
    record_name,
    used_name,
)
from gpuforge.cluster.shared_store import USED, unpack
from gpuforge.execute.entry import StoreEntry
from gpuforge.execute.upkeep import ListedEntry
from gpuforge.toolchains.sccache import COMPILED

_READERS = 8  # threads
_FORGOTTEN = 86400.0  # seconds after which contents without a record are those of a killed build


class EntryObjects(NamedTuple):
    """An entry of a shared store: the bytes of its record, and the names of its objects, the record's first."""

    listed: ListedEntry
    data: bytes
    objects: tuple[str, ...]
    aliases: tuple[str, ...]


def entries(objects: Objects) -> list[EntryObjects]:
    """Return all entries, the least recently used first; remove old contents without a record, of killed builds."""
    by_key: dict[str, dict[str, ListedObject]] = {}
    for each in objects.find(ENTRIES):
        parts = each.name.split("/")
        if len(parts) == 4 and is_key(parts[2]):
            by_key.setdefault(parts[2], {})[each.name] = each
    uses = {each.name: each.modified for each in objects.find(USES)}
    with ThreadPoolExecutor(_READERS) as pool:
        records = dict(zip(by_key, pool.map(lambda key: objects.read(record_name(key)), by_key), strict=True))
    aliases: dict[str, list[str]] = {}
    kept = []
    for key, found in by_key.items():
        data = records[key]
        if data is None:
            _forget(objects, found.values())
            continue
        record = _parsed(key, data)
        if isinstance(record, Alias):
            aliases.setdefault(record.key, []).append(key)
            continue
        # a folder in the record's place is not listed
        written = max(each.modified for each in found.values())
        used = max(written, uses.get(used_name(key), 0.0))
        entry: StoreEntry | None = record.entry if record else None
        size = sum(each.size for each in found.values())
        listed = ListedEntry(key, Path(record_name(key)), entry, size, used)
        ordered = dict.fromkeys((record_name(key), *sorted(found)))
        kept.append(EntryObjects(listed, data, tuple(ordered), ()))
    kept.sort(key=lambda each: (each.listed.used, each.listed.key))
    return [each._replace(aliases=tuple(aliases.get(each.listed.key, ()))) for each in kept]


def compiled(objects: Objects) -> list[ListedEntry]:
    """Return the objects of all projects' compiler caches, each with the time when it was written."""
    found = objects.find(COMPILED)
    return [ListedEntry(each.name, Path(each.name), None, each.size, each.modified) for each in found]


def _parsed(key: str, data: bytes) -> SharedEntry | Alias | None:
    try:
        return from_bytes(key, data)
    except ValueError:
        return None


def _forget(objects: Objects, found: Iterable[ListedObject]) -> None:
    time = now(objects)
    for each in found:
        if time - each.modified > _FORGOTTEN:
            objects.remove(each.name)


def recent(objects: Objects) -> float:
    """Return the time since which used entries stay, because a running build may have got them."""
    return oldest(objects) - 2 * USED


def discard(objects: Objects, each: EntryObjects) -> bool:
    """Remove an entry and its names, its record first; False if another entry has replaced it."""
    if objects.read(record_name(each.listed.key)) != each.data:
        return False
    for name in (*each.objects, used_name(each.listed.key), *map(record_name, each.aliases)):
        objects.remove(name)
    return True


def verify(objects: Objects, found: Sequence[EntryObjects]) -> list[tuple[EntryObjects, str]]:
    """Fetch and unpack all entries; remove and return those that differ from their records, with the reason."""
    damaged = []
    for each in found:
        why = _wrong(objects, each)
        if why and discard(objects, each):
            damaged.append((each, why))
    return damaged


def _wrong(objects: Objects, each: EntryObjects) -> str:
    try:
        record = from_bytes(each.listed.key, each.data)
        if isinstance(record, SharedEntry):
            with tempfile.TemporaryDirectory(prefix="gpuforge-") as folder:
                unpack(objects, each.listed.key, record, Path(folder), Path(folder, "out"))
    except ValueError as error:
        return str(error)
    return ""
