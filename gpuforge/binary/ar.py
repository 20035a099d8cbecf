"""Reads archives of `ar`: System V, GNU and BSD names, and thin archives.

Formats: ar(5) of FreeBSD, https://man.freebsd.org/cgi/man.cgi?query=ar&sektion=5; GNU's thin archives:
https://sourceware.org/binutils/docs/binutils/ar.html.
"""

from collections.abc import Iterator
from typing import NamedTuple

from gpuforge.errors import MalformedError

MAGIC, THIN = b"!<arch>\n", b"!<thin>\n"
HEADER = 60  # bytes before each member
_END = b"`\n"  # of a header
_NAMES = "//"  # GNU's table of names that are too long for a header
_INDEXES = frozenset({"/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64", "__.SYMDEF_64 SORTED"})
_LONGEST_NAME = 1 << 12  # bytes; no path is longer


class ArMember(NamedTuple):
    """A file in an archive."""

    name: str  # in a thin archive: a path relative to the archive
    data: bytes | None  # None in a thin archive, whose members are files beside it


def is_archive(head: bytes) -> bool:
    """Return whether a file with these first bytes is an archive."""
    return head.startswith((MAGIC, THIN))


def members(data: bytes) -> Iterator[ArMember]:
    """Yield the members in order, without indexes of symbols. Raises MalformedError."""
    thin = data.startswith(THIN)
    if not is_archive(data):
        raise MalformedError.of("its first bytes are not those of an archive")
    position, long_names = len(MAGIC), b""
    while data[position:].strip(b"\n") if len(data) - position < HEADER else True:
        raw, size = header(data[position : position + HEADER], position)
        start = position + HEADER
        special = _text(raw) in _INDEXES or _text(raw) == _NAMES
        inside = size if special or not thin else 0
        if start + inside > len(data):
            raise MalformedError.of(f"the archive ends in the middle of the member at byte {position}")
        position = start + inside + inside % 2
        content = data[start : start + inside]
        if _text(raw) == _NAMES:
            long_names = content
            continue
        name, skipped = _name(raw, content, long_names)
        if name in _INDEXES:
            continue
        yield ArMember(name, None if thin else content[skipped:] if skipped else content)


def header(data: bytes, position: int) -> tuple[bytes, int]:
    """Return name and size in the header of a member at byte `position`. Raises MalformedError."""
    if len(data) < HEADER or data[58:] != _END:
        raise MalformedError.of(f"there is no archive member at byte {position}")
    size = data[48:58].strip(b" ")
    if not size.isdigit():
        raise MalformedError.of(f"the archive member at byte {position} has no size")
    return data[:16].rstrip(b" "), int(size)


def _name(raw: bytes, content: bytes, long_names: bytes) -> tuple[str, int]:
    """Return a member's name, and the number of bytes of its content that are the name."""
    if raw.startswith(b"#1/") and raw[3:].isdigit():  # BSD: the name precedes the content
        length = int(raw[3:])
        if length > min(len(content), _LONGEST_NAME):
            raise MalformedError.of(f"an archive member's name has {length} bytes")
        return _text(content[:length].rstrip(b"\0")), length
    if raw[:1] == b"/" and raw[1:].isdigit():  # GNU: the name is in the table
        start = int(raw[1:])
        end = long_names.find(b"\n", start, start + _LONGEST_NAME)
        if start >= len(long_names) or end < 0:
            raise MalformedError.of(f"the archive has no name at byte {start} of its table")
        return _text(long_names[start:end].removesuffix(b"/")), 0
    if raw[:1] == b"/" and b":" in raw:  # GNU: a member of an archive that a thin archive names
        raise MalformedError.of("the thin archive names members of other archives")
    return (_text(raw) if _text(raw) in _INDEXES else _text(raw.removesuffix(b"/"))), 0


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
