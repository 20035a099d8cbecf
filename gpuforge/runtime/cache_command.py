"""`python -m PACKAGE._gpuforge cache ls|verify|rm|prune|clear`: lists, checks or removes its entries."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sized
from pathlib import Path

from .cache import CacheFolder, File, bytes_of, folder_of, limit_of
from .layout import home_problem
from .process import printable

SUMMARY = "list, check or remove the kernels that were compiled on this machine"


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="ls|verify|rm|prune|clear")
    listing = commands.add_parser("ls", help="list the entries, the most recently used first")
    listing.add_argument("--json", action="store_true", help="as JSON")
    commands.add_parser("verify", help="read every entry; exit status 1 when one is damaged")
    removal = commands.add_parser("rm", help="remove single entries, which are compiled again when needed")
    removal.add_argument("digest", nargs="+", help="the beginning of an entry's digest, as `ls` shows it")
    prune = commands.add_parser(
        "prune", help="remove damaged and old entries, what killed processes left, and builds of what is gone"
    )
    prune.add_argument("--size", metavar="SIZE", type=_size, help='keep no more than this, such as "200M"')
    commands.add_parser("clear", help="remove all entries")


def run(options: argparse.Namespace) -> int:
    """Run the subcommand; return the exit code: 1 if `verify` found a damaged entry, 2 for a wrong folder."""
    wrong = home_problem(os.environ)
    if wrong:
        return _fail(str(wrong))
    folder = CacheFolder(folder_of(os.environ), limit_of(os.environ))
    action = {"ls": _list, "verify": _verify, "rm": _remove, "prune": _prune, "clear": _clear}[options.action]
    return action(folder, options)


def _size(text: str) -> int:
    try:
        return bytes_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def say(line: str) -> None:
    sys.stdout.write(f"{printable(line)}\n")


def _fail(problem: str) -> int:
    sys.stderr.write(printable(f"error: {problem}\n"))
    return 2


def _list(folder: CacheFolder, options: argparse.Namespace) -> int:
    files = list(folder.files())[::-1]
    if options.json:
        say(json.dumps([_as_data(folder, file) for file in files], indent=2))
        return 0
    for line in _table([_row(folder, file) for file in files]):
        say(line)
    say(_total(folder, files))
    return 0


def _verify(folder: CacheFolder, _: argparse.Namespace) -> int:
    files = list(folder.files())
    bad = [(file, problem) for file in files for problem in [folder.check(file)] if problem]
    for file, problem in bad:
        say(f"{file.path}: {problem}")
    say(f"read {_entries(files)}: {len(bad) or 'none'} damaged")
    return 1 if bad else 0


def _remove(folder: CacheFolder, options: argparse.Namespace) -> int:
    """Remove the entries of some digests; if one of them means none or several, nothing is removed."""
    files = list(folder.files())
    found = {digest: [file for file in files if file.digest.startswith(digest)] for digest in options.digest}
    for digest, meant in found.items():
        if len(meant) != 1:
            what = "no entry begins" if not meant else f"{len(meant)} entries begin"
            return _fail(f"{what} with {digest}; nothing was removed: `cache ls` lists them")
    for digest, (file,) in found.items():
        folder.remove(file.digest)
        say(f"removed {digest}, {_megabytes(file.size)}")
    return 0


def _prune(folder: CacheFolder, options: argparse.Namespace) -> int:
    bad = [file for file in folder.files() if folder.check(file)]
    for file in bad:
        folder.remove(file.digest)
    removed = bad + folder.prune(options.size)
    say(f"removed {_entries(removed)}, {_megabytes(sum(file.size for file in removed))}")
    for place in _remove_leftovers(folder.path.with_name("user")):
        say(f"removed {place}: what it was compiled for is gone")
    say(_total(folder, list(folder.files())))
    return 0


def _remove_leftovers(user: Path) -> list[Path]:
    try:
        from .userbuild.activation import remove_leftovers
    except ImportError:  # nothing of this wheel is compiled by users
        return []
    return remove_leftovers(user)


def _clear(folder: CacheFolder, _: argparse.Namespace) -> int:
    say(f"removed {_entries(range(folder.clear()))} from {folder.path}")
    return 0


def _row(folder: CacheFolder, file: File) -> tuple[str, ...]:
    fields = _fields(folder, file)
    days = max(0.0, time.time() - file.used) / 86400
    return (
        file.digest[:12],
        _megabytes(file.size),
        "today" if days < 1 else f"{days:.0f} days ago",
        str(fields.get("arch", "?")),
        str(fields.get("toolchain", "damaged")),
        str(fields.get("label", "")),
    )


def _as_data(folder: CacheFolder, file: File) -> dict[str, object]:
    place = {"digest": file.digest, "file": str(file.path), "size": file.size, "used": file.used}
    return {**place, "key": _fields(folder, file)}


def _fields(folder: CacheFolder, file: File) -> dict[str, object]:
    entry = folder.read(file.digest, touch=False)
    return {} if entry is None else entry.fields


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    if rows:
        widths = [max(map(len, column)) for column in zip(*rows)]
        yield from ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _total(folder: CacheFolder, files: list[File]) -> str:
    size = _megabytes(sum(file.size for file in files))
    return f"{_entries(files)}, {size} of {_megabytes(folder.limit)} in {folder.path}"


def _entries(files: Sized) -> str:
    return f"{len(files)} {'entry' if len(files) == 1 else 'entries'}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"
