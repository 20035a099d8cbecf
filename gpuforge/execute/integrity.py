"""Checks of stored files against what was written down about them: by names and sizes, by bytes, by times."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from gpuforge import digest
from gpuforge.errors import ActionError
from gpuforge.execute.store_entry import StoredFile, StoreEntry


def survey(folder: Path, outputs: Iterable[str]) -> tuple[StoredFile, ...]:
    """Return every file and link of the outputs in `folder`, with sizes and digests, in name order.

    Raises ActionError for an output that is a link itself, and for pipes, sockets and devices.
    """
    found: list[StoredFile] = []
    for output in outputs:
        top = folder / output
        if top.is_symlink():
            raise ActionError.of(
                f"the output {output} is a link, to {top.readlink()}", hint="write a file or a folder there"
            )
        members = digest.walk(top) if top.is_dir() else [top]
        found += [_describe(folder, member) for member in members]
    return tuple(sorted(found, key=lambda file: file.path))


def _describe(folder: Path, member: Path) -> StoredFile:
    name = member.relative_to(folder).as_posix()
    if member.is_symlink():
        target = os.fspath(member.readlink())
        return StoredFile(name, len(target), "", target)
    found = member.stat()
    if not stat.S_ISREG(found.st_mode):
        kind = digest.KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise ActionError.of(f"{name} of the outputs is {kind}", hint="outputs are files, folders and links")
    executable = bool(found.st_mode & stat.S_IXUSR)
    return StoredFile(name, found.st_size, digest.of_file(member), executable=executable)


def damage(folder: Path, entry: StoreEntry) -> str:
    """Return what is wrong with the files in `folder` by names and sizes alone, or an empty string."""
    root = os.fspath(folder)
    for name in entry.outputs:
        if not os.path.lexists(f"{root}/{name}"):
            return f"{name} is gone"
    for file in entry.files:
        wrong = _wrong(f"{root}/{file.path}", file)
        if wrong:
            return f"{file.path}{wrong}"
    return ""


def _wrong(path: str, file: StoredFile) -> str:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return " is gone"
    except OSError as error:
        return f" cannot be read: {error.strerror}"
    if stat.S_ISLNK(found.st_mode) != bool(file.link) or not (file.link or stat.S_ISREG(found.st_mode)):
        return " is not what was stored"
    change = found.st_size - file.size
    if change:
        return f": {abs(change)} {_bytes(change)} {'missing' if change < 0 else 'too many'}"
    return ""


def changes(folder: Path, entry: StoreEntry) -> str:
    """Return what is wrong with the files in `folder` when every byte is read, or an empty string.

    What is there besides counts, too: a header or a `.pth` file more changes a build.
    """
    stored = {file.path: file for file in entry.files}
    there = {file.path: file for file in survey(folder, entry.outputs)}
    for name in sorted(stored.keys() | there.keys()):
        if name not in stored:
            return f"{name} was put there later"
        if stored[name] != there.get(name):
            return f"{name} is not what was stored"
    return ""


def stamp(folder: Path) -> str:
    """Return a digest of when each file and folder below `folder` last changed; no byte of them is read.

    The kernel sets these times (ctime), so a write shows also where its modification time was put back.
    """
    found = [os.lstat(folder)]
    for name, folders, files in os.walk(folder):
        found += [os.lstat(f"{name}/{each}") for each in sorted([*folders, *files])]
        folders.sort()
    return digest.of_data([[each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns] for each in found])


def _bytes(count: int) -> str:
    return "byte" if abs(count) == 1 else "bytes"
