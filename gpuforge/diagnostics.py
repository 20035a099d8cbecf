"""The form of every message to users: what is wrong, where, and what to do. Names in it are escaped."""

import re
from collections.abc import Sequence
from typing import NamedTuple

# Control characters, those that turn the direction of text or are not seen, and halves of characters.
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufeff\uffa0\ufff9-\uffff\U000e0000-\U000e0fff"
)
# What CI systems take for commands in a log: GitHub at the beginning of a line, it, Azure and TeamCity anywhere.
_COMMANDS = r"(?<!\S)::|##(?=\[|vso\[|teamcity\[)"
_STEERING = re.compile(rf"[{_UNSEEN}\t\n]|{_COMMANDS}", re.IGNORECASE)
_STEERING_LINES = re.compile(rf"[{_UNSEEN}]|{_COMMANDS}", re.IGNORECASE)


def shown(text: str) -> str:
    """Return a name, or a text with names from outside, on one line, with what steers terminals or CI as escapes.

    Every name passes through here on its way to people; what programs read (JSON, SARIF) has it as it is.
    """
    return _STEERING.sub(_escaped, text)


def shown_lines(text: str) -> str:
    """Return a text of several lines as `shown` does."""
    return _STEERING_LINES.sub(_escaped, text)


def shortened(items: Sequence[object], most: int = 3) -> str:
    """Return the first items, and how many more there are: "a, b, c and 9 more"."""
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(map(str, items[:most])) + more


def _escaped(found: re.Match[str]) -> str:
    if found[0] == "::":
        return "\\x3a:"
    return "#\\x23" if found[0] == "##" else found[0].encode("unicode_escape").decode()


class Place(NamedTuple):
    """A place in a file; `line` and `column` count from 1, and 0 means "the whole file"."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Write `file:line:column`, the form that editors and CI logs turn into a link."""
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


class Diagnostic(NamedTuple):
    """One problem: its cause in a sentence, its place if it has one, and the next step as `hint`."""

    message: str
    place: Place | None = None
    hint: str = ""

    def __str__(self) -> str:
        """Write `place: message`, then the hint on a line of its own."""
        return f"{self.head}\n  hint: {self.hint}" if self.hint else self.head

    @property
    def head(self) -> str:
        """The message behind its place, without the hint."""
        return f"{self.place}: {self.message}" if self.place else self.message
