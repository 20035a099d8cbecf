"""`gpuforge cache`: what is kept between builds; list it, check every byte of it, remove what is old or too much."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from gpuforge.cli import cache_shared
from gpuforge.cli.arguments import Group, errors_as_json
from gpuforge.cli.cache_data import entry_data, print_json
from gpuforge.cli.cache_text import Others, show_entries, show_pruned
from gpuforge.cli.console import count
from gpuforge.cli.options import DURATION, SIZE, cache_dir
from gpuforge.cli.terminal import say
from gpuforge.errors import UsageError
from gpuforge.execute import upkeep
from gpuforge.execute.ledger import FileLedger
from gpuforge.execute.store import FolderStore
from gpuforge.execute.upkeep import DamagedEntry
from gpuforge.manifest.quoting import printable
from gpuforge.manifest.sizes import size_in_words
from gpuforge.tree import remove

shared = click.option("--shared", is_flag=True, help="Act on the store that GPUFORGE_STORE names.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.group("cache", cls=Group)
def command() -> None:
    """List, check and prune what is kept between builds."""


@command.command("ls")
@shared
@as_json
@errors_as_json
def list_entries(*, shared: bool, as_json: bool) -> None:
    """Print the sizes by kind and by project, and the last use."""
    if shared:
        cache_shared.list_entries(as_json=as_json)
        return
    cache, store = cache_dir(), _store()
    if store is None:
        _show_none(cache, as_json, entries=[], folders=[], set_aside_bytes=0, bytes=0)
        return
    found = upkeep.entries(store)
    of = upkeep.projects(found, FileLedger(cache / "ledger.jsonl").keys())
    folders = {path.name: upkeep.disk_size(path) for path in sorted(cache.iterdir()) if path != store.root}
    aside = sum(upkeep.disk_size(path) for path in upkeep.aside(store))
    if not as_json:
        show_entries(cache, found, of, folders, aside)
        return
    data = [entry_data(each) | {"projects": list(of[each.key])} for each in found]
    sizes = [{"name": name, "bytes": size} for name, size in folders.items()]
    total = sum(each.size for each in found) + sum(folders.values()) + aside
    print_json(cache, entries=data, folders=sizes, set_aside_bytes=aside, bytes=total)


@command.command("verify")
@shared
@as_json
@click.pass_context
@errors_as_json
def verify(ctx: click.Context, /, *, shared: bool, as_json: bool) -> None:
    """Read every byte and set aside damaged entries.

    The next build that needs such an entry makes it again. The exit status is 1 if an entry was damaged. With --shared,
    damaged entries are removed.
    """
    if shared:
        ctx.exit(0 if cache_shared.verify(as_json=as_json) else 1)
    cache, store = cache_dir(), _store()
    if store is None:
        _show_none(cache, as_json, checked=0, bytes=0, damaged=[], names_removed=0)
        return
    found = upkeep.entries(store)
    damaged = upkeep.verify(store, found)
    loose = upkeep.loose_names(store)
    for name in loose:
        name.unlink(missing_ok=True)
    size = sum(each.size for each in found)
    if as_json:
        data = [
            entry_data(each.entry)
            | {"reason": each.why, "set_aside": str(each.aside) if each.aside else None}
            for each in damaged
        ]
        print_json(cache, checked=len(found), bytes=size, damaged=data, names_removed=len(loose))
    else:
        for each in damaged:
            click.echo(_damage(each))
        if loose:
            click.echo(f"removed {count(len(loose), 'name')} of entries that are no longer there")
        entries = count(len(found), "entry", "entries")
        click.echo(f"read {entries}, {size_in_words(size)}: {len(damaged) or 'none'} damaged")
    ctx.exit(1 if damaged else 0)


def _damage(each: DamagedEntry) -> str:
    where = f"set aside as {each.aside}" if each.aside else "it is being made again just now"
    return printable(f"damaged: {each.entry.action or each.entry.key}: {each.why}; {where}")


@command.command("prune")
@click.option(
    "--older", type=DURATION, metavar="DURATION", help="Remove entries unused for this long: 12h, 30d, 2w."
)
@click.option(
    "--size", type=SIZE, metavar="SIZE", help='Remove entries until at most this much remains: "20 GB".'
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@shared
@as_json
@errors_as_json
def prune(*, older: float | None, size: int | None, dry_run: bool, shared: bool, as_json: bool) -> None:
    """Remove the least recently used entries.

    Entries are the outputs of finished actions, and damaged ones that were set aside. Those that a running build uses
    stay; with --shared, so do those that any machine used in the last two hours. --older also removes old logs. The
    compiler caches have limits of their own; with --shared they are pruned, too.
    """
    if older is None and size is None:
        raise UsageError.of(
            "prune needs --older or --size", hint='such as --older 30d or --size "20 GB", or both'
        )
    if shared:
        cache_shared.prune(older=older, size=size, dry_run=dry_run, as_json=as_json)
        return
    cache, store = cache_dir(), _store()
    if store is None:
        none = {"removed": [], "others_removed": 0, "in_use": 0, "bytes": 0, "bytes_left": 0}
        _show_none(cache, as_json, dry_run=dry_run, **none)
        return
    found = upkeep.entries(store)
    since = None if older is None else time.time() - older
    taken = store.taken()
    chosen = upkeep.to_prune(found, unused_since=since, most=size, in_use=taken)
    # A build may use the entry now.
    removed = [each for each in chosen if dry_run or upkeep.discard(store, each)]
    others = upkeep.aside(store) + (_old_logs(cache, since) if since is not None else [])
    freed = sum(each.size for each in removed) + sum(upkeep.disk_size(path) for path in others)
    if not dry_run:
        for path in others:
            remove(path) if path.is_dir() else path.unlink(missing_ok=True)
    left = sum(each.size for each in found) - sum(each.size for each in removed)
    if as_json:
        data = [entry_data(each) for each in removed]
        print_json(
            cache,
            dry_run=dry_run,
            removed=data,
            others_removed=len(others),
            in_use=len(taken),
            bytes=freed,
            bytes_left=left,
        )
    else:
        show_pruned(removed, Others(len(others)), freed, left, dry_run=dry_run)
    if taken:
        say(f"note: kept {count(len(taken), 'entry', 'entries')} in use by running builds")


def _old_logs(cache: Path, since: float) -> list[Path]:
    return [path for path in (cache / "logs").glob("*.log") if path.lstat().st_mtime < since]


def _store() -> FolderStore | None:
    """Return the store of this machine; None if no build has made it yet."""
    folder = cache_dir() / "store"
    return FolderStore(folder) if folder.is_dir() else None


def _show_none(cache: Path, as_json: bool, **fields: Any) -> None:
    """Print that a cache folder has no store, or the `fields` of a store without entries."""
    if as_json:
        print_json(cache, **fields)
    else:
        click.echo(f"nothing is kept in {cache}")
