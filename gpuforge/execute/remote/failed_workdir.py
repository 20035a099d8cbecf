"""The working directory of an action that failed on a worker, brought to the client (`--keep-failed`)."""

from __future__ import annotations

import errno
import os
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
                tar.extractall(kept, filter=_Harmless())  # noqa: S202  a stricter filter than "data"
        except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError):
            remove(kept)
            return None
    return kept


class _Harmless:
    """Accepts members that stay in the folder, up to a total size."""

    def __init__(self) -> None:
        self._left = _MOST

    def __call__(self, member: tarfile.TarInfo, place: str) -> tarfile.TarInfo | None:
        self._left -= member.size
        if self._left < 0:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        try:
            return tarfile.data_filter(member, place)
        except tarfile.FilterError:
            return None
