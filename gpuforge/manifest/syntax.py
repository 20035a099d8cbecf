"""Parsing TOML, with the parser's complaints in words that say what to write instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import tomli

from gpuforge.manifest.fields import toml_key

_LINE = "a line is `key = value`, `[table]` or a comment that begins with #"
_ONCE = "a key or table is given once; put what belongs together into one place"
# What tomli says (a pattern), what we say, and the hint.
_WORDS = (
    (r"Invalid value", "this is no value", 'text needs quotes: key = "value"; true and false are written small'),
    (r"Invalid statement", "this is no key, table or comment", _LINE),
    (r"Invalid initial character for a key part", "a key is wanted here", _LINE),
    (r"Expected '=' after a key.*", "`=` is missing after the key", _LINE),
    (r"Expected newline or end of document.*", "something follows on the line", "begin a new line, or a comment"),
    (r"Expected '\]+' at the end of .*", "the header is not closed", "headers are `[table]` or `[[array]]`"),
    (r"Unclosed array", "an array is not closed", "a `]` is missing before this"),
    (r"Unclosed inline table", "an inline table is not closed", "a `}` is missing before this"),
    (r"(Unterminated string|Illegal character '\\[nr]')", "a text is not closed", 'a `"` is missing before this'),
    (r"Illegal character (.*)", r"the character \1 is not allowed here", r"write it as an escape, e.g. \u0000"),
    (r"Unescaped '\\+' in a string", "a `\\\\` in a text begins an escape", r'write \\ for one, or use single quotes'),
    (r"Cannot overwrite a value", "a key is given twice", _ONCE),
    (r"Duplicate inline table key '(.*)'", r"the key `\1` is given twice", _ONCE),
    (r"Invalid date or datetime", "there is no such date or time", "in quotes it is a text"),
)  # fmt: skip


class WrittenFloat(float):
    """A number with a point, which remembers how it is written: 3.10 is not 3.1 to who forgot the quotes."""

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        """Parse `text`, which the TOML parser took for a number."""
        number = super().__new__(cls, text)
        number.text = text
        return number


class TomlError(Exception):
    """The text is not TOML; `position` is (line, column), both from 1, or None for the whole."""

    def __init__(self, message: str, hint: str, position: tuple[int, int] | None) -> None:
        super().__init__(message)
        self.message, self.hint, self.position = message, hint, position


def parse(text: str) -> Mapping[str, Any]:
    """Parse a TOML document; raises TomlError, whatever is wrong with it."""
    if text.startswith("\ufeff"):
        hint = "save it as UTF-8 without one (“UTF-8”, not “UTF-8 with BOM”)"
        raise TomlError("the file begins with a byte order mark", hint, (1, 1))
    try:
        return tomli.loads(text, parse_float=WrittenFloat)
    except tomli.TOMLDecodeError as error:
        message, hint = _in_words(error.msg)
        line = text.split("\n")[error.lineno - 1]
        position = (error.lineno, error.colno)
        if (
            given := re.match(r"(\s*)([^\s=\[#][^=]*?)\s*=", line)
            if message == "a key is given twice"
            else None
        ):
            message, position = f"the key `{given[2]}` is given twice", (error.lineno, len(given[1]) + 1)
        raise TomlError(f"not valid TOML: {message}", hint, position) from None
    except RecursionError:
        raise TomlError("values or keys are nested too deeply", "a manifest needs few levels", None) from None
    except ValueError:  # the only other one: an integer of more digits than Python converts
        raise TomlError("a number has too many digits", "a manifest needs no such number", None) from None


def _in_words(complaint: str) -> tuple[str, str]:
    for pattern, message, hint in _WORDS:
        if match := re.fullmatch(pattern, complaint):
            return match.expand(message), hint
    if table := re.search(r"\((.*)\)", complaint):  # Cannot declare ('a', 'b') twice, and the like
        name = ".".join(toml_key(key) for key in re.findall(r"'([^']*)'", table[1]))
        return f"[{name}] is given twice", _ONCE
    return complaint[:1].lower() + complaint[1:], "https://toml.io/en/v1.0.0 describes the format"
