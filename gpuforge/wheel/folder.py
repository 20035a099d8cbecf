"""Reads files on disk like the members of an archive: an unpacked wheel, an installed one, a single file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from zipfile import ZIP_STORED

from gpuforge.binary.budget import Budget
from gpuforge.diagnostics import Place
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import Archive, Member

_CHUNK = 1 << 21  # bytes of a file that are in memory at once


class Folder(Archive):
    """Files by their names as members; nothing is inflated, and no checksum is compared."""

    def __init__(self, path: Path, files: Mapping[str, Path]) -> None:
        """Use the regular files of `files`; the others are left out."""
        self.path = path
        self._files = {name: file for name, file in files.items() if file.is_file()}
        sizes = {name: file.stat().st_size for name, file in self._files.items()}
        self.members = tuple(Member(name, size, size, ZIP_STORED, 0, 0) for name, size in sizes.items())
        self.budget = Budget(sum(sizes.values()))
        self.budget.spend("entries", len(sizes))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass  # each file is closed after it was read

    def chunks(self, member: Member) -> Iterator[bytes]:
        """Yield a file's bytes in order; raises MalformedError if it cannot be read."""
        try:
            with self._files[member.name].open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    self.budget.spend("bytes", len(chunk))
                    yield chunk
        except OSError as error:
            raise _unreadable(member, error) from error

    def head(self, member: Member, count: int) -> bytes:
        """Return the first `count` bytes of a file. Raises the errors of `chunks`."""
        try:
            with self._files[member.name].open("rb") as stream:
                return stream.read(count)
        except OSError as error:
            raise _unreadable(member, error) from error


def files_below(folder: Path) -> dict[str, Path]:
    """Return every file below a folder by its name there, "a/b.so", in order; links to folders are not followed."""
    found = [Path(base) / name for base, _, names in os.walk(folder) for name in names]
    return {path.relative_to(folder).as_posix(): path for path in sorted(found)}


def _unreadable(member: Member, error: OSError) -> MalformedError:
    return MalformedError.of(error.strerror or str(error), place=Place(member.name))
