"""Lay out styled text on lines of a given width: words wrap, longer ones fold, and a hanging head stands beside them.

The report needs no more than this, and rich takes longer to load than a small wheel takes to audit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

Span = tuple[str, str]  # a text and the words of its style: "bold red"
_WORD = re.compile(r"\s*\S+\s*")
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}  # ECMA-48, SGR
_NARROWEST = 8  # columns that a text is given in any case


def wrapped(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """Break spans into lines of at most `width` columns; no text makes one empty line."""
    text = "".join(text for text, _ in spans)
    breaks = [0, *_breaks(text, max(width, _NARROWEST)), len(text)]
    return [list(_cut(spans, start, stop)) for start, stop in pairwise(breaks)]


def hanging(head: Span, body: Iterable[Sequence[Span]], indent: int, column: int) -> Iterator[list[Span]]:
    """Put lines into a column, and `head` before the first of them."""
    for index, line in enumerate(body):
        lead = (head[0].ljust(column), head[1]) if not index else (" " * column, "")
        yield [(" " * indent, ""), lead, *line]


def drawn(line: Iterable[Span], *, color: bool) -> str:
    """Return a line as text that ends in no space, with escape sequences for its styles or without."""
    held = [(text, style) for text, style in line if text]
    while held and not held[-1][0].rstrip():
        held.pop()
    if held:
        held[-1] = (held[-1][0].rstrip(), held[-1][1])
    return "".join(_painted(text, style) if color and style else text for text, style in held)


def _painted(text: str, style: str) -> str:
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


def _breaks(text: str, width: int) -> Iterator[int]:
    """Yield where lines begin, after the first. A word that fits on no line begins one of its own, and is folded."""
    used = 0
    for match in _WORD.finditer(text):
        word, start = match[0], match.start()
        length = _columns(word.rstrip())
        if length <= width - used:
            used += _columns(word)
            continue
        if length <= width:
            yield start
            used = _columns(word)
            continue
        for piece in _folded(word, width):
            if start:
                yield start
            start += len(piece)
            used = _columns(piece)


def _folded(word: str, width: int) -> Iterator[str]:
    if word.isascii():
        yield from (word[at : at + width] for at in range(0, len(word), width))
        return
    piece, used = "", 0
    for character in word:
        wide = _columns(character)
        if used + wide > width:
            yield piece
            piece, used = "", 0
        piece += character
        used += wide
    yield piece


def _columns(text: str) -> int:
    """Return how many columns of a terminal a text takes (Unicode annexes 11 and 44)."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width  # noqa: PLC0415  most reports have no such character

    return sum(
        2 if east_asian_width(character) in "WF" else category(character) not in {"Mn", "Me", "Cf"}
        for character in text
    )


def _cut(spans: Sequence[Span], start: int, stop: int) -> Iterator[Span]:
    at = 0
    for text, style in spans:
        if part := text[max(0, start - at) : max(0, stop - at)]:
            yield part, style
        at += len(text)
