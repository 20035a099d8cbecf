"""Compare RECORD with the files of a wheel row by row: it may have a million lines, and few of them tell anything."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Iterator

from gpuforge.wheel.archive import Member
from gpuforge.wheel.facts import Record

_MOST = 10_000  # rows that are kept of those that tell of no file of the wheel
_LONGEST = 1 << 20  # characters of a line
_LARGEST_SIZE = 20  # digits


def read(chunks: Iterable[bytes], members: Iterable[Member]) -> Record:
    """Read the RECORD that comes in these chunks; of what it says, keep the hashes of what is named as a library.

    Raises csv.Error for what is none (PyPA, "Recording installed projects"), and what reading the chunks does.
    """
    sizes = {member.name: member.size for member in members}
    unlisted = dict.fromkeys(sizes)
    digests: dict[str, str] = {}
    odd: dict[str, tuple[str, int | None]] = {}
    more = 0
    for name, digest, size in _rows(chunks):
        unlisted.pop(name, None)
        known = sizes.get(name)
        if known is not None and digest and ".so" in name:
            digests[name] = digest
        if known is not None and digest and size in {None, known}:
            odd.pop(name, None)
        elif known is not None or name in odd or len(odd) < _MOST:
            odd[name] = digest, size
        else:
            more += 1
    return Record(tuple(unlisted), digests, odd, more)


def _rows(chunks: Iterable[bytes]) -> Iterator[tuple[str, str, int | None]]:
    for row in csv.reader(_lines(chunks)):
        if row:
            digest, size = (*row[1:], "", "")[:2]
            number = size.isascii() and size.isdigit() and len(size) <= _LARGEST_SIZE
            yield row[0], digest, int(size) if number else None


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
