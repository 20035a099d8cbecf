"""Downloads Debian packages, or blocks of them, pinned by their sha256, from a mirror."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuforge.errors import MissingError
from gpuforge.toolkits.progress import Say, quiet

MIRROR = "https://deb.debian.org/debian"  # the default; GPUFORGE_DEBIAN_MIRROR sets another


@dataclass(frozen=True, slots=True)
class BlockFile:
    """A file in a block: its place in the tree's `lib`, and its bytes in the unpacked block."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class DebianPart:
    """A Debian package, or one block of it (`members` not empty): the bytes to download and their sha256."""

    package: str
    version: str
    path: str  # on the mirror
    start: int  # byte of the file
    size: int  # bytes
    sha256: str  # of these bytes
    members: tuple[BlockFile, ...] = ()

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]], machine: str) -> tuple[DebianPart, ...]:
        """Read the rows of a table that are for a machine type."""
        found = [dict(row) for row in rows if row["machine"] == machine]
        for row in found:
            row["members"] = tuple(BlockFile(**member) for member in row.get("members", ()))
            del row["machine"]
        return tuple(cls(**row) for row in found)


def fetched(parts: Iterable[DebianPart], partial: Path, say: Say) -> Iterator[tuple[DebianPart, Path]]:
    """Download parts one after the other; yield each with its file, which is gone after it."""
    file = partial / "part"
    for part in parts:
        say(f"fetching {part.package} {part.version} ({part.size / 1e6:.0f} MB) from {mirror()}")
        fetch_part(part, file, say=say)
        yield part, file
        file.unlink()


def mirror() -> str:
    """Return the address of the Debian mirror to download from."""
    return os.environ.get("GPUFORGE_DEBIAN_MIRROR") or MIRROR


def fetch_part(part: DebianPart, file: Path, *, say: Say = quiet) -> None:
    """Download a part of Debian's packages and check it; raises the errors of `download`, MissingError if gone."""
    from gpuforge.toolkits.download import GoneError, download  # noqa: PLC0415  plans fetch nothing

    try:
        download(f"{mirror().rstrip('/')}/{part.path}", file, sha256=part.sha256, start=part.start,
                 size=part.size if part.members else None, say=say)  # fmt: skip
    except GoneError:
        raise MissingError.of(
            f"{mirror()} has no {part.package} {part.version} (any more)",
            hint="set GPUFORGE_DEBIAN_MIRROR to one that has it: a day of https://snapshot.debian.org/archive/debian/ "
            "on which it was there; or upgrade gpuforge",
        ) from None
