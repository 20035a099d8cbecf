"""RECORD, the list of a wheel's files: read, compared with the archive, written.

https://packaging.python.org/en/latest/specifications/recording-installed-packages/
"""

import base64
import codecs
import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from gpuforge.binary.window import Budget
from gpuforge.wheel.archive import Member

_MOST = 10_000  # rows without a file in the wheel that are kept
_LONGEST = 1 << 20  # characters of a line, and of the lines of a row
_LARGEST_SIZE = 20  # digits
_SHA256 = 32  # bytes of a digest


class Record(NamedTuple):
    """The differences between a RECORD and the archive, and the hashes of libraries."""

    unlisted: tuple[str, ...]  # files of the wheel that it does not list
    sha256: Mapping[str, str]  # of the libraries of the wheel with a hash, in hexadecimal
    # hash and size in rows without a file, with another size, or without a hash
    odd: Mapping[str, tuple[str, int | None]]
    more: int = 0  # further rows without a file in the wheel


class Row(NamedTuple):
    """One line of RECORD."""

    name: str
    digest: str  # "sha256=..." in URL-safe base64, or ""
    size: int | None


def compare(chunks: Iterable[bytes], members: Iterable[Member], budget: Budget) -> Record:
    """Compare the RECORD in these chunks with the archive; only rows that differ are kept, at most `_MOST`.

    A RECORD may have a million lines. Raises csv.Error if it is not a CSV file, and the errors of reading the chunks.
    """
    sizes = {member.name: member.size for member in members}
    unlisted = dict.fromkeys(sizes)
    hashes: dict[str, str] = {}
    odd: dict[str, tuple[str, int | None]] = {}
    more = 0
    for name, digest, size in rows(chunks):
        budget.spend("entries", 1)
        unlisted.pop(name, None)
        actual = sizes.get(name)
        if actual is not None and ".so" in name and (known := sha256(digest)):
            hashes[name] = known
        if actual is not None and digest and size in {None, actual}:
            odd.pop(name, None)
        elif actual is not None or name in odd or len(odd) < _MOST:
            budget.spend("names", len(name) + len(digest))
            odd[name] = digest, size
        else:
            more += 1
    return Record(tuple(unlisted), hashes, odd, more)


def sha256(text: str) -> str:
    """Return the sha256 in a row in hexadecimal; "" if it has none."""
    algorithm, _, encoded = text.partition("=")
    try:
        found = (
            base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)) if algorithm == "sha256" else b""
        )
    except ValueError:
        return ""
    return found.hex() if len(found) == _SHA256 else ""


def rows(chunks: Iterable[bytes]) -> Iterator[Row]:
    """Yield the rows of a RECORD; raises csv.Error if it is not a CSV file."""
    lines = _Lines(chunks)
    for row in csv.reader(lines):
        lines.taken = 0
        if row:
            digest, size = (*row[1:], "", "")[:2]
            number = size.isascii() and size.isdigit() and len(size) <= _LARGEST_SIZE
            yield Row(row[0], digest, int(size) if number else None)


def text(tree: Path, names: Iterable[str], record: str) -> str:
    """Return the RECORD of an unpacked wheel with these files; `record` is its own name, which gets no hash."""
    import hashlib  # noqa: PLC0415  OpenSSL takes 3 ms to load, and reading needs none of it

    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for name in names:
        with (tree / name).open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").digest()
        digest = "sha256=" + base64.urlsafe_b64encode(sha256).rstrip(b"=").decode()
        writer.writerow([name, digest, (tree / name).stat().st_size])
    writer.writerow([record, "", ""])
    return written.getvalue()


class _Lines:
    """The lines in these chunks; a quoted row that is too long is refused."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.taken = 0  # characters since the last row
        self._lines = _lines(chunks)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.taken += len(line)
        if self.taken > _LONGEST:
            raise csv.Error(f"a row of more than {_LONGEST} characters")
        return line


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = ""
    for text in codecs.iterdecode(chunks, "utf-8", "replace"):
        *whole, rest = (rest + text).split("\n")
        if len(rest) > _LONGEST:
            raise csv.Error(f"a line of more than {_LONGEST} characters")
        for line in whole:
            yield f"{line}\n"
    if rest:
        yield rest
