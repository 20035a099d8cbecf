"""Lays out text on lines of a given width: words wrap, but a name that is wider than a line is not broken."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}  # ECMA-48, SGR
# A space inside of a name, at which a line is not broken: a private character of Unicode, as texts have none.
UNBROKEN = "\uf8ff"
_NARROWEST = 8  # the least columns of a text


class Text(NamedTuple):
    """A text whose beginning has a style: "bold red"."""

    start: str
    style: str = ""
    rest: str = ""


class Page(NamedTuple):
    """The width of lines in columns, and whether they are coloured."""

    width: int
    color: bool

    def lines(self, text: Text, *, indent: int = 0, head: Text | None = None) -> Iterator[str]:
        """Yield a text as lines behind an indent, in which `head` stands on the first line."""
        head = head or Text("")
        room = max(self.width - indent, _NARROWEST)
        whole = text.start + text.rest
        styled = len(text.start)  # characters that are not styled yet
        for line in textwrap.wrap(whole, room, break_long_words=False, break_on_hyphens=False):
            shown = line.replace(UNBROKEN, " ")
            beginning, rest = shown[: max(styled, 0)], shown[max(styled, 0) :]
            yield f"{self._lead(head, indent)}{self._painted(beginning, text.style)}{rest}"
            styled -= len(line) + 1  # with the space at which the line ends
            head = Text("")

    def _lead(self, head: Text, indent: int) -> str:
        before = len(head.start) - len(head.start.lstrip())
        gap = " " * (indent - len(head.start))
        return f"{' ' * before}{self._painted(head.start.lstrip(), head.style)}{gap}"

    def _painted(self, text: str, style: str) -> str:
        if not (self.color and style and text):
            return text
        return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"
