"""The output of `gpuforge cache` for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from gpuforge.cli.console import count, results_console
from gpuforge.execute.times import local_time
from gpuforge.execute.upkeep import ListedEntry
from gpuforge.manifest.quoting import printable
from gpuforge.manifest.sizes import size_in_words

_SHARED = "(several projects)"
_UNKNOWN = "(unknown)"


def show_entries(
    cache: Path,
    entries: Sequence[ListedEntry],
    projects: Mapping[str, Sequence[str]],
    folders: Mapping[str, int],
    aside: int,
) -> None:
    """Print tables of entries by kind and by project, and the sizes of the other folders of the cache."""
    console = results_console()
    by_kind: dict[str, list[ListedEntry]] = {}
    by_project: dict[str, list[ListedEntry]] = {}
    for each in entries:
        by_kind.setdefault(each.kind, []).append(each)
        users = projects[each.key]
        name = users[0] if len(users) == 1 else _SHARED if users else _UNKNOWN
        by_project.setdefault(printable(name), []).append(each)
    console.print(_table("kind", by_kind))
    console.print()
    console.print(_table("project", by_project))
    console.print()
    other = Table(box=None, pad_edge=False, header_style="bold")
    other.add_column("beside them", no_wrap=True)
    other.add_column("size", justify="right")
    for name, size in [*folders.items(), *([("set aside, damaged", aside)] if aside else [])]:
        other.add_row(printable(name), size_in_words(size))
    console.print(other)
    total = sum(each.size for each in entries) + sum(folders.values()) + aside
    console.print(f"\n{size_in_words(total)} in {printable(str(cache))}", highlight=False, markup=False)


def show_shared(url: str, entries: Sequence[ListedEntry], compiled: Sequence[ListedEntry]) -> None:
    """Print a table of a shared store's entries by kind; those of the compiler caches are one kind."""
    console = results_console()
    by_kind: dict[str, list[ListedEntry]] = {}
    for each in entries:
        by_kind.setdefault(each.kind, []).append(each)
    if compiled:
        by_kind["compiled objects"] = list(compiled)
    console.print(_table("kind", by_kind))
    text = f"\n{size_in_words(_size([*entries, *compiled]))} in {printable(url)}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)


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


@dataclass(frozen=True, slots=True)
class Others:
    """The number of other things that were removed: logs and damaged entries, and objects of compiler caches."""

    old: int = 0
    compiled: int = 0

    def __str__(self) -> str:
        """Write " and 3 compiled objects"."""
        logs = [count(self.old, "log or damaged entry", "logs and damaged entries")] if self.old else []
        objects = [count(self.compiled, "compiled object")] if self.compiled else []
        return "".join(f" and {each}" for each in (*logs, *objects))


def show_pruned(
    removed: Sequence[ListedEntry], others: Others, freed: int, left: int, *, dry_run: bool
) -> None:
    """Print what was removed, or would be."""
    console = results_console()
    for each in removed:
        line = f"{size_in_words(each.size):>10}  {each.action or each.key}"
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
    verb = "would remove" if dry_run else "removed"
    entries = count(len(removed), "entry", "entries")
    console.print(
        f"{verb} {entries}{others}, {size_in_words(freed)}; {size_in_words(left)} of finished actions stay",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
