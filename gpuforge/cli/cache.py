"""`gpuforge cache`: what is kept between builds; list it, check every byte of it, remove what is old or too much.

With `--shared` the same of the store that GPUFORGE_STORE names, for all machines that share it.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from gpuforge.cli import folders
from gpuforge.cli.options import Call, Group, as_duration, as_json, as_size, pass_call
from gpuforge.cli.terminal import count, results_console, say
from gpuforge.cluster import upkeep as shared_upkeep
from gpuforge.cluster.folder import connect
from gpuforge.cluster.leases import now
from gpuforge.cluster.objects import VARIABLE, Objects
from gpuforge.errors import UsageError
from gpuforge.execute import upkeep
from gpuforge.execute.ledger import Ledger
from gpuforge.execute.store import FolderStore
from gpuforge.execute.times import local_time
from gpuforge.execute.upkeep import ListedEntry
from gpuforge.manifest.problem import printable
from gpuforge.manifest.sizes import size_in_words
from gpuforge.tree import remove

_SHARED = "(several projects)"
_UNKNOWN = "(unknown)"

shared = click.option("--shared", is_flag=True, help="Act on the store that GPUFORGE_STORE names.")


@click.group("cache", cls=Group)
def command() -> None:
    """List, check and prune what is kept between builds."""


@command.command("ls")
@shared
@as_json
@pass_call
def list_entries(call: Call, /, *, shared: bool, as_json: bool) -> None:
    """Print the sizes by kind and by project, and the last use."""
    if shared:
        _list_shared(_objects(call), as_json=as_json)
        return
    cache, store = call.cache, _store(call)
    if store is None:
        _show_none(cache, as_json, entries=[], folders=[], set_aside_bytes=0, bytes=0)
        return
    entries = upkeep.entries(store)
    projects = upkeep.projects(entries, Ledger(cache / "ledger.jsonl").keys())
    folders = {path.name: upkeep.disk_size(path) for path in sorted(cache.iterdir()) if path != store.root}
    aside = sum(upkeep.disk_size(path) for path in upkeep.aside(store))
    total = _size(entries) + sum(folders.values()) + aside
    if as_json:
        data = [entry_data(each) | {"projects": list(projects[each.key])} for each in entries]
        sizes = [{"name": name, "bytes": size} for name, size in folders.items()]
        print_json(cache, entries=data, folders=sizes, set_aside_bytes=aside, bytes=total)
        return
    by_project: dict[str, list[ListedEntry]] = {}
    for each in entries:
        users = projects[each.key]
        name = users[0] if len(users) == 1 else _SHARED if users else _UNKNOWN
        by_project.setdefault(printable(name), []).append(each)
    other = Table(box=None, pad_edge=False, header_style="bold")
    other.add_column("beside them", no_wrap=True)
    other.add_column("size", justify="right")
    for name, size in [*folders.items(), *([("set aside, damaged", aside)] if aside else [])]:
        other.add_row(printable(name), size_in_words(size))
    console = results_console()
    for shown in (_table("kind", _by_kind(entries)), _table("project", by_project), other):
        console.print(shown)
        console.print()
    console.print(f"{size_in_words(total)} in {printable(str(cache))}", highlight=False, markup=False)


def _list_shared(objects: Objects, *, as_json: bool) -> None:
    """Print the sizes by kind, the compiler caches' among them, and the last use."""
    entries = [each.listed for each in shared_upkeep.entries(objects)]
    compiled = shared_upkeep.compiled(objects)
    total = _size([*entries, *compiled])
    if as_json:
        beside = {"objects": len(compiled), "bytes": _size(compiled)}
        print_json(objects.url, entries=[entry_data(each) for each in entries], compiled=beside, bytes=total)
        return
    console = results_console()
    console.print(_table("kind", _by_kind(entries) | ({"compiled objects": compiled} if compiled else {})))
    text = f"\n{size_in_words(total)} in {printable(objects.url)}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)


@command.command("verify")
@shared
@as_json
@pass_call
def verify(call: Call, /, *, shared: bool, as_json: bool) -> int:
    """Read every byte and set aside damaged entries.

    The next build that needs such an entry makes it again. The exit status is 1 if an entry was damaged. With --shared,
    damaged entries are removed.
    """
    damaged: list[tuple[ListedEntry, str, dict[str, str | None]]] = []  # with what to tell, and data
    names: dict[str, int] = {}  # names of entries that are no longer there; a shared store has none
    place: Path | str = call.cache
    if shared:
        objects = _objects(call)
        place, found = objects.url, shared_upkeep.entries(objects)
        entries = [each.listed for each in found]
        for bad, why in shared_upkeep.verify(objects, found):
            damaged.append((bad.listed, f"{why}; removed, the next build makes it again", {"reason": why}))
    elif (store := _store(call)) is None:
        _show_none(call.cache, as_json, checked=0, bytes=0, damaged=[], names_removed=0)
        return 0
    else:
        entries = upkeep.entries(store)
        for each in upkeep.verify(store, entries):
            aside = str(each.aside) if each.aside else None
            where = f"set aside as {aside}" if aside else "it is being made again just now"
            damaged.append((each.entry, f"{each.why}; {where}", {"reason": each.why, "set_aside": aside}))
        loose = upkeep.loose_names(store)
        for name in loose:
            name.unlink(missing_ok=True)
        names = {"names_removed": len(loose)}
    if as_json:
        data = [entry_data(entry) | more for entry, _, more in damaged]
        print_json(place, checked=len(entries), bytes=_size(entries), damaged=data, **names)
        return 1 if damaged else 0
    for entry, what, _ in damaged:
        click.echo(printable(f"damaged: {entry.action or entry.key}: {what}"))
    if any(names.values()):
        click.echo(f"removed {count(names['names_removed'], 'name')} of entries that are no longer there")
    number = count(len(entries), "entry", "entries")
    click.echo(f"read {number}, {size_in_words(_size(entries))}: {len(damaged) or 'none'} damaged")
    return 1 if damaged else 0


@command.command("prune")
@click.option(
    "--older", type=as_duration, metavar="DURATION", help="Remove entries unused for this long: 12h, 30d, 2w."
)
@click.option(
    "--size", type=as_size, metavar="SIZE", help='Remove entries until at most this much remains: "20 GB".'
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@shared
@as_json
@pass_call
def prune(
    call: Call, /, *, older: float | None, size: int | None, dry_run: bool, shared: bool, as_json: bool
) -> None:
    """Remove the least recently used entries.

    Entries are the outputs of finished actions, and damaged ones that were set aside. Those that a running build uses
    stay; with --shared, so do those that any machine used in the last two hours. --older also removes old logs, and
    what `build --inplace` built then: give that command again where it is still in use. The compiler caches have
    limits of their own; with --shared they are pruned, too.
    """
    if older is None and size is None:
        raise UsageError.of(
            "prune needs --older or --size", hint='such as --older 30d or --size "20 GB", or both'
        )
    if shared:
        _prune_shared(_objects(call), older, size, dry_run=dry_run, as_json=as_json)
        return
    cache, store = call.cache, _store(call)
    if store is None:
        none = {"removed": [], "others_removed": 0, "in_use": 0, "bytes": 0, "bytes_left": 0}
        _show_none(cache, as_json, dry_run=dry_run, **none)
        return
    entries = upkeep.entries(store)
    since = None if older is None else time.time() - older
    since_then = store.in_use_since()
    taken = {each.key for each in entries if each.used >= since_then}
    chosen = upkeep.to_prune(entries, unused_since=since, most=size, in_use=taken)
    # A build may use the entry now.
    removed = [each for each in chosen if dry_run or upkeep.discard(store, each)]
    beside = [*cache.glob("logs/*.log"), *cache.glob(f"{folders.INPLACE}/*/*")] if since is not None else []
    last = min(since or 0, since_then)
    others = [*upkeep.aside(store), *(path for path in beside if path.lstat().st_mtime < last)]
    freed = _size(removed) + sum(upkeep.disk_size(path) for path in others)
    if not dry_run:
        for path in others:
            remove(path)
        store.sweep()
    left = _size(entries) - _size(removed)
    if as_json:
        numbers = {"others_removed": len(others), "in_use": len(taken), "bytes": freed, "bytes_left": left}
        print_json(cache, dry_run=dry_run, removed=[entry_data(each) for each in removed], **numbers)
    else:
        what = "log, folder of --inplace or damaged entry", "logs, folders of --inplace and damaged entries"
        also = count(len(others), *what) if others else ""
        _show_pruned(removed, also, freed=freed, left=left, dry_run=dry_run)
    if taken:
        say(f"note: kept {count(len(taken), 'entry', 'entries')} in use by running builds")


def _prune_shared(
    objects: Objects, older: float | None, size: int | None, *, dry_run: bool, as_json: bool
) -> None:
    """Remove the least recently used entries, except those that a running build on any machine may use."""
    by_key = {each.listed.key: each for each in shared_upkeep.entries(objects)}
    entries = [each.listed for each in by_key.values()]
    recent = shared_upkeep.recent(objects)
    taken = {each.key for each in entries if each.used >= recent}
    since = None if older is None else min(time.time(), now(objects)) - older
    entries += shared_upkeep.compiled(objects)
    entries.sort(key=lambda each: each.used)
    chosen = list(upkeep.to_prune(entries, unused_since=since, most=size, in_use=taken))
    compiled = [each for each in chosen if each.key not in by_key]
    removed = [
        each
        for each in chosen
        if each.key in by_key and (dry_run or shared_upkeep.discard(objects, by_key[each.key]))
    ]
    if not dry_run:
        for each in compiled:
            objects.remove(each.key)
    freed = _size([*removed, *compiled])
    left = _size(entries) - freed
    if as_json:
        numbers = {
            "compiled_removed": len(compiled),
            "in_use": len(taken),
            "bytes": freed,
            "bytes_left": left,
        }
        print_json(objects.url, dry_run=dry_run, removed=[entry_data(each) for each in removed], **numbers)
    else:
        also = count(len(compiled), "compiled object") if compiled else ""
        _show_pruned(removed, also, freed=freed, left=left, dry_run=dry_run)
    if taken:
        say(f"note: kept {count(len(taken), 'entry', 'entries')} used in the last hours or by running builds")


def _show_pruned(removed: Sequence[ListedEntry], also: str, *, freed: int, left: int, dry_run: bool) -> None:
    """Print what was removed, or would be, and `also` how many other things were."""
    console = results_console()
    for each in removed:
        line = f"{size_in_words(each.size):>10}  {each.action or each.key}"
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
    verb = "would remove" if dry_run else "removed"
    entries = count(len(removed), "entry", "entries") + (f" and {also}" if also else "")
    text = f"{verb} {entries}, {size_in_words(freed)}; {size_in_words(left)} of finished actions stay"
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _store(call: Call) -> FolderStore | None:
    """Return the store of this machine; None if no build has made it yet."""
    folder = call.cache / "store"
    return FolderStore(folder) if folder.is_dir() else None


def _objects(call: Call) -> Objects:
    url = folders.address(call.environ)
    if url is None:
        raise UsageError.of(
            "--shared is for a store that machines share, and none is named", hint=f"set {VARIABLE}"
        )
    return connect(url)


def _show_none(cache: Path, as_json: bool, **fields: Any) -> None:
    """Print that a cache folder has no store, or the `fields` of a store without entries."""
    if as_json:
        print_json(cache, **fields)
    else:
        click.echo(f"nothing is kept in {cache}")


def entry_data(each: ListedEntry) -> dict[str, Any]:
    """Return an entry as plain data (schema 1); `used` in seconds since 1970."""
    return {
        "key": each.key,
        "kind": each.kind,
        "action": each.action,
        "bytes": each.size,
        "made": each.record.finished if each.record else None,
        "used": round(each.used),
    }


def print_json(cache: Path | str, **fields: Any) -> None:
    """Print data about a cache folder, or about the shared store at a URL."""
    click.echo(json.dumps({"schema": 1, "cache": str(cache)} | fields, indent=2))


def _by_kind(entries: Iterable[ListedEntry]) -> dict[str, list[ListedEntry]]:
    by_kind: dict[str, list[ListedEntry]] = {}
    for each in entries:
        by_kind.setdefault(each.kind, []).append(each)
    return by_kind


def _table(heading: str, groups: Mapping[str, Sequence[ListedEntry]]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column(heading, overflow="fold")
    for name in ("entries", "size", "last used"):
        shown.add_column(name, justify="left" if name == "last used" else "right", no_wrap=True)
    for name, entries in sorted(groups.items(), key=lambda each: -_size(each[1])):
        used = datetime.fromtimestamp(max(each.used for each in entries), UTC).isoformat()
        shown.add_row(
            name.replace("[", r"\["), str(len(entries)), size_in_words(_size(entries)), local_time(used)
        )
    return shown


def _size(entries: Iterable[ListedEntry]) -> int:
    return sum(each.size for each in entries)
