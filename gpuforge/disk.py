"""Write files that appear whole or not at all, and turn a failing disk into an error that says what to do."""

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from gpuforge.errors import ActionError

_PART = ".gpuforge.part"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_HINTS = {
    **dict.fromkeys(_FULL, "free some space there, or choose another folder for the output"),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS), "check the folder's rights, or choose another one"
    ),
}


@contextmanager
def errors_at(place: Path) -> Iterator[None]:
    """Turn an OSError, raised while writing below `place`, into an ActionError with a hint."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        named = str(error.filename or place)
        place = place if error.errno in _FULL or named.endswith(_PART) else Path(named)
        raise ActionError.of(
            f"{place}: {os.strerror(error.errno)}", hint=_HINTS.get(error.errno, "")
        ) from error


@contextmanager
def appearing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the name `path` when it is complete; on an error nothing is left.

    What is left after SIGKILL is removed by `sweep`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = _part(path)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            temporary.chmod(0o644)
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _part(path: Path) -> tuple[int, Path]:
    """Make a file beside `path` and lock it, for as long as it is open."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=_PART)
        if _locks(handle) and os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # it was swept before it was locked


def _locks(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nothing is swept there either
        return True
    return True


def sweep(folder: Path) -> None:
    """Remove the incomplete files of `appearing` that a killed process left in a folder; those of live ones stay."""
    for path in folder.glob(f".*{_PART}"):
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)


def write_text(file: Path, text: str) -> None:
    """Write a text file that appears whole or not at all; raises ActionError when the disk is full."""
    with errors_at(file), appearing(file) as stream:
        stream.write(text.encode())
