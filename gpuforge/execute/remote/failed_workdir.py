"""The working directory of an action that failed on a worker, brought to the client (`--keep-failed`)."""

from __future__ import annotations

import errno
import os
import shutil
import tarfile
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path

from gpuforge import tree
from gpuforge.execute import locks
from gpuforge.execute.remote.board import Board
from gpuforge.tree import remove

_MOST = 16 * 10**9  # bytes of the archive, and of what is unpacked from it


def send(board: Board, folder: Path) -> None:
    """Put a working directory on the board, unless it is too large or has paths that are too long."""
    with tempfile.TemporaryDirectory(prefix="gpuforge-kept-", dir=folder.parent) as place:
        archive = Path(place, "kept.tar.gz")
        left = _MOST
        with suppress(OSError):
            with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
                for entry in tree.walk(folder):
                    left -= entry.stat.st_size
                    if left < 0:
                        return
                    tar.add(folder / entry.path, entry.path, recursive=False)
            board.keep(archive)


def fetch(board: Board, folder: Path, action: str) -> Path | None:
    """Unpack the directory that `send` put there below `folder`, replacing an earlier one; None if there is none.

    Left out are links that lead out of the directory, and anything but files, folders and links.
    """
    kept = folder / locks.file_name(action)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".gpuforge-kept-", dir=folder) as place:
        archive = Path(place, "kept.tar.gz")
        if not board.fetch_kept(archive, _MOST):
            return None
        remove(kept)
        try:
            with tarfile.open(archive) as tar:
                _unpack(tar, kept)
        except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError):
            remove(kept)
            return None
    return kept


def _unpack(tar: tarfile.TarFile, place: Path) -> None:
    """Write what stays in the folder, up to a total size; links come last, so that nothing is written through one.

    `tarfile` has filters for this only since Python 3.11.4.
    """
    left, links = _MOST, dict[str, str]()
    place.mkdir()
    for member in tar:
        left -= member.size
        if left < 0:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        if tree.leaves(place, member.name):
            continue
        target = place / member.name
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
        elif member.issym():
            links[member.name] = member.linkname
        elif member.isfile() and (content := tar.extractfile(member)):
            target.parent.mkdir(parents=True, exist_ok=True)
            with content, target.open("xb") as stream:
                shutil.copyfileobj(content, stream)
            target.chmod(member.mode & 0o755)
        elif member.islnk() and not tree.leaves(place, member.linkname):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(place / member.linkname)
    for name, linked in links.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).symlink_to(linked)
    for name in [name for name in links if tree.leaves(place, name)]:
        (place / name).unlink()
