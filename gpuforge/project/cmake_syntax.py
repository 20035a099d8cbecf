"""Reads the commands of a CMake file: https://cmake.org/cmake/help/latest/manual/cmake-language.7.html"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<long> (?P<hash> \#? ) \[ (?P<level> =* ) \[ )
    | (?P<comment> \#[^\n]* )
    | " (?P<quoted> (?: [^"\\] | \\. )*+ ) "
    | (?P<open> \( ) | (?P<close> \) )
    | (?P<word> (?: [^\s()\#"\\\[] | \\. | \[(?!=*\[) )+ )
    """,
    re.VERBOSE | re.DOTALL,
)


class Command(NamedTuple):
    """A command with its arguments as written, without quotes; brackets within them are arguments, too."""

    name: str  # in lower case
    arguments: tuple[str, ...]
    line: int


class _Token(NamedTuple):
    kind: str  # "open", "close" or "word"
    text: str
    offset: int
    quoted: bool = False


def commands(text: str) -> Iterator[Command]:
    """Yield the commands of a file; anything else is skipped."""
    name, line, depth, arguments = "", 0, 0, list[str]()
    counted, at = 1, 0
    for token in _tokens(text):
        if token.kind == "open":
            depth += 1
            arguments += ["("] * (depth > 1)
        elif token.kind == "close":
            if depth == 1 and name:
                yield Command(name, tuple(arguments), line)
            depth = max(depth - 1, 0)
            arguments += [")"] * (depth > 0)
            name, arguments = (name, arguments) if depth else ("", [])
        elif depth:
            arguments.append(token.text)
        elif not token.quoted:
            counted, at = counted + text.count("\n", at, token.offset), token.offset
            name, line, arguments = token.text.lower(), counted, []


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the words and brackets of a file, without comments."""
    position, unclosed = 0, set[str]()
    while match := _TOKEN.search(text, position):
        position = match.end()
        if match["long"]:
            closing = f"]{match['level']}]"
            end = -1 if closing in unclosed else text.find(closing, position)
            if end < 0:
                unclosed.add(closing)
            elif not match["hash"]:
                yield _Token("word", text[position:end], match.start(), quoted=True)
            position = end + len(closing) if end >= 0 else position
        elif match["quoted"] is not None:
            yield _Token("word", match["quoted"], match.start(), quoted=True)
        elif not match["comment"]:
            kind = match.lastgroup or ""
            yield _Token(kind, match[0], match.start())
