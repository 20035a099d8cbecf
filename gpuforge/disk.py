"""Write files that appear whole or not at all, and turn a failing disk into an error that says what to do."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gpuforge.errors import ActionError

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
        place = place if error.errno in _FULL else Path(error.filename or place)
        raise ActionError.of(
            f"{place}: {os.strerror(error.errno)}", hint=_HINTS.get(error.errno, "")
        ) from error


@contextmanager
def appearing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the name `path` when it is complete; on an error nothing is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(file: Path, text: str) -> None:
    """Write a text file that appears whole or not at all; raises ActionError when the disk is full."""
    with errors_at(file), appearing(file) as stream:
        stream.write(text.encode())
