"""Content digests (sha256): of bytes, files, folders and plain data."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gpuforge import tree

_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def of_bytes(data: bytes) -> str:
    """Return the sha256 of `data` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def of_file(path: Path) -> str:
    """Return the sha256 of a file's bytes; raises OSError when it cannot be read."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def of_member(root: Path, path: str, *, follow: bool = False, stop: Callable[[], bool] = bool) -> str:
    """Return the sha256 of a file below an untrusted folder; raises the errors of `tree.reading`.

    `stop` is called again and again; InterruptedError is raised once it returns True.
    """
    content = hashlib.sha256()
    with tree.reading(root, path, follow=follow) as handle:
        while chunk := os.read(handle, 1 << 22):
            content.update(chunk)
            if stop():
                raise InterruptedError(errno.EINTR, "interrupted", f"{root}/{path}")
    return content.hexdigest()


class Contents:
    """The digests of files' contents. Each file is read once, so it must not change meanwhile."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of(self, root: Path, path: str) -> str:
        """Return the sha256 of a file below `root`, also through links; see `tree.reading` for what it raises."""
        file = root / path
        if file not in self._known:
            self._known[file] = of_member(root, path, follow=True)
        return self._known[file]


def of_data(value: Any) -> str:
    """Return the sha256 of plain data (what JSON can say), independent of the order of mapping keys."""
    return of_bytes(_JSON.encode(value).encode(errors="surrogateescape"))  # names of files may be any bytes


def of_files(root: Path, members: Iterable[Path], contents: Contents | None = None) -> str:
    """Return one sha256 over files below `root`: their relative names, executable bits and bytes, in name order."""
    contents = contents or Contents()
    return of_data([list(_entry(root, member, contents)) for member in sorted(members)])


def of_each(root: Path, members: Iterable[Path], contents: Contents | None = None) -> dict[str, str]:
    """Return the sha256 of each file below `root` by its relative name, in name order; kinds and modes count too."""
    contents = contents or Contents()
    entries = (_entry(root, member, contents) for member in sorted(members))
    return {name: of_data([kind, content]) for name, kind, content in entries}


def of_output(files: Iterable[tuple[str, str, str, bool]]) -> str:
    """Return the digest of an action's output: of each file's name, sha256, target as a link, and executable bit."""
    return of_data([list(file) for file in files])


def _entry(root: Path, member: Path, contents: Contents) -> tuple[str, str, str]:
    name = member.relative_to(root).as_posix()
    if member.is_symlink():
        target = contents.of(root, name) if member.is_file() else ""
        return name, "link", f"{member.readlink().as_posix()} {target}".rstrip()
    executable = "exec" if member.stat().st_mode & stat.S_IXUSR else "file"
    return name, executable, contents.of(root, name)
