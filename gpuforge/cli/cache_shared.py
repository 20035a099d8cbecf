"""`gpuforge cache … --shared`: the store that GPUFORGE_STORE names, for all machines that share it."""

from __future__ import annotations

import time

import click

from gpuforge.cli import stores
from gpuforge.cli.cache_data import entry_data, print_json
from gpuforge.cli.cache_text import Others, show_pruned, show_shared
from gpuforge.cli.console import count
from gpuforge.cli.terminal import say
from gpuforge.errors import UsageError
from gpuforge.execute.objects.connect import connect
from gpuforge.execute.objects.port import VARIABLE, Objects
from gpuforge.execute.shared import presence, upkeep
from gpuforge.execute.upkeep import to_prune
from gpuforge.manifest.quoting import printable
from gpuforge.manifest.sizes import size_in_words


def list_entries(*, as_json: bool) -> None:
    """Print the sizes by kind, the compiler caches' among them, and the last use."""
    objects = _objects()
    found, compiled = [each.listed for each in upkeep.entries(objects)], upkeep.compiled(objects)
    if as_json:
        data = [entry_data(each) for each in found]
        size, objects_size = sum(each.size for each in found), sum(each.size for each in compiled)
        beside = {"objects": len(compiled), "bytes": objects_size}
        print_json(objects.url, entries=data, compiled=beside, bytes=size + objects_size)
    else:
        show_shared(objects.url, found, compiled)


def verify(*, as_json: bool) -> bool:
    """Fetch and unpack every entry, and remove the damaged ones; return whether all are whole."""
    objects = _objects()
    found = upkeep.entries(objects)
    damaged = upkeep.verify(objects, found)
    size = sum(each.listed.size for each in found)
    if as_json:
        data = [entry_data(each.listed) | {"reason": why} for each, why in damaged]
        print_json(objects.url, checked=len(found), bytes=size, damaged=data)
    else:
        for each, why in damaged:
            text = f"damaged: {each.listed.action or each.listed.key}: {why}; removed, the next build makes it again"
            click.echo(printable(text))
        entries = count(len(found), "entry", "entries")
        click.echo(f"read {entries}, {size_in_words(size)}: {len(damaged) or 'none'} damaged")
    return not damaged


def prune(*, older: float | None, size: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove the least recently used entries, except those that a running build on any machine may use."""
    objects = _objects()
    found = upkeep.entries(objects)
    by_key = {each.listed.key: each for each in found}
    entries = [each.listed for each in found]
    recent = upkeep.recent(objects)
    taken = {each.key for each in entries if each.used >= recent}
    since = None if older is None else min(time.time(), presence.now(objects)) - older
    entries += upkeep.compiled(objects)
    entries.sort(key=lambda each: each.used)
    chosen = list(to_prune(entries, unused_since=since, most=size, in_use=taken))
    compiled = [each for each in chosen if each.key not in by_key]
    removed = [
        each
        for each in chosen
        if each.key in by_key and (dry_run or upkeep.discard(objects, by_key[each.key]))
    ]
    if not dry_run:
        for each in compiled:
            objects.remove(each.key)
    freed = sum(each.size for each in (*removed, *compiled))
    left = sum(each.size for each in entries) - freed
    if as_json:
        data = [entry_data(each) for each in removed]
        print_json(
            objects.url,
            dry_run=dry_run,
            removed=data,
            compiled_removed=len(compiled),
            in_use=len(taken),
            bytes=freed,
            bytes_left=left,
        )
    else:
        show_pruned(removed, Others(compiled=len(compiled)), freed, left, dry_run=dry_run)
    if taken:
        say(f"note: kept {count(len(taken), 'entry', 'entries')} used in the last hours or by running builds")


def _objects() -> Objects:
    url = stores.address()
    if url is None:
        raise UsageError.of(
            "--shared is for a store that machines share, and none is named", hint=f"set {VARIABLE}"
        )
    return connect(url)
