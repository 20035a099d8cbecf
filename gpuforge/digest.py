"""Content digests (sha256): of bytes, files, folders and plain data."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
}
"""What is no file, in words, by the format bits of its mode."""


def of_bytes(data: bytes) -> str:
    """Return the sha256 of `data` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def of_file(path: Path) -> str:
    """Return the sha256 of a file's bytes; raises OSError when it cannot be read."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def of_data(value: Any) -> str:
    """Return the sha256 of plain data (what JSON can say), independent of the order of mapping keys."""
    return of_bytes(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())


def of_files(root: Path, members: Iterable[Path]) -> str:
    """Return one sha256 over files below `root`: their relative names, executable bits and bytes, in name order."""
    return of_data([list(_entry(root, member)) for member in sorted(members)])


def of_each(root: Path, members: Iterable[Path]) -> dict[str, str]:
    """Return the sha256 of each file below `root` by its relative name, in name order; kinds and modes count too."""
    entries = (_entry(root, member) for member in sorted(members))
    return {name: of_data([kind, content]) for name, kind, content in entries}


def of_tree(path: Path) -> str:
    """Return one sha256 over a file or over everything in a folder."""
    if path.is_file() and not path.is_symlink():
        return of_file(path)
    return of_files(path, walk(path))


def walk(root: Path) -> Iterator[Path]:
    """Yield every file and link below `root` (links are not followed), in no particular order."""
    for name, folders, files in os.walk(root):
        folder = Path(name)
        yield from (folder / file for file in files)
        yield from (folder / sub for sub in folders if (folder / sub).is_symlink())


def _entry(root: Path, member: Path) -> tuple[str, str, str]:
    name = member.relative_to(root).as_posix()
    if member.is_symlink():
        target = of_file(member) if member.is_file() else ""
        return name, "link", f"{member.readlink().as_posix()} {target}".rstrip()
    executable = "exec" if member.stat().st_mode & stat.S_IXUSR else "file"
    return name, executable, of_file(member)
