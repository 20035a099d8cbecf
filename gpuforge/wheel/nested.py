"""Wheels inside other archives, as sdists of several wheels have them: unpacked into anonymous memory files."""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from gpuforge.errors import MalformedError

_BROKEN = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, ValueError, NotImplementedError)
_CHUNK = 1 << 20  # bytes
_LARGEST = 8 << 30  # bytes of a wheel; a longer one was made to fill the memory


def is_archive(path: Path) -> bool:
    """Tell whether a file is a zip or a tar file."""
    return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def is_wheel(path: Path) -> bool:
    """Tell by its content whether a file is a wheel. Raises MalformedError."""
    if not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.partition("/")[0].endswith(".dist-info") for name in archive.namelist())
    except _BROKEN as error:
        raise _malformed(error) from error


def wheels(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the wheels in a zip or tar file: the name of each, and the descriptor of a memory file with its bytes.

    The caller closes the descriptors. Raises MalformedError for a broken archive, OSError when it cannot be read.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith(".whl"):
                        with archive.open(name) as stream:
                            yield name, _in_memory(stream)
            return
        with tarfile.open(path) as tar:
            for member in tar:
                if member.isfile() and member.name.endswith(".whl") and (content := tar.extractfile(member)):
                    yield member.name, _in_memory(content)
    except _BROKEN as error:
        raise _malformed(error) from error


def _in_memory(stream: IO[bytes]) -> int:
    descriptor = os.memfd_create("wheel")
    try:
        size = 0
        while size < _LARGEST and (chunk := stream.read(_CHUNK)):
            if not size and not chunk.startswith(b"PK"):
                # not a wheel, as its reader will report; the rest may be endless
                os.write(descriptor, chunk[:64])
                break
            size += os.write(descriptor, chunk)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _malformed(error: Exception) -> MalformedError:
    return MalformedError.of(f"it cannot be unpacked ({error})")
