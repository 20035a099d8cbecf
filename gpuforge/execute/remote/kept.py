"""The working directory of an action that failed on a worker, brought to the client (`--keep-failed`)."""

from __future__ import annotations

import tarfile
import tempfile
import zlib
from pathlib import Path

from gpuforge.execute import locks
from gpuforge.execute.remote.board import Board
from gpuforge.tree import remove

_MOST = 16 * 10**9  # bytes of the archive


def send(board: Board, folder: Path) -> None:
    """Put a working directory on the board."""
    with tempfile.TemporaryDirectory(prefix="gpuforge-kept-", dir=folder.parent) as place:
        archive = Path(place, "kept.tar.gz")
        with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
            tar.add(folder, ".")
        board.keep(archive)


def fetch(board: Board, folder: Path, action: str) -> Path | None:
    """Unpack what `send` put there below `folder`, in place of an earlier one; None where it is not there or broken.

    Links that lead out of the directory, and what is neither file, folder nor link, are left out.
    """
    kept = folder / locks.file_name(action)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".gpuforge-kept-", dir=folder) as place:
        archive = Path(place, "kept.tar.gz")
        if not board.kept(archive, _MOST):
            return None
        remove(kept)
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(kept, filter=_harmless)  # noqa: S202  a stricter filter than "data"
        except (tarfile.TarError, zlib.error, EOFError):
            remove(kept)
            return None
    return kept


def _harmless(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, place)
    except tarfile.FilterError:
        return None
