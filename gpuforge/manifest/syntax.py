"""Parses TOML; errors of the parser get a plain message and a hint."""

import re
from collections.abc import Mapping
from typing import Any

import tomli

from gpuforge import datafile
from gpuforge.manifest.problem import WrittenFloat, toml_key

_LINE = "a line is `key = value`, `[table]` or a comment that starts with #"
_TWICE = "a key is defined twice"
_ONCE = "each key or table may appear once; merge the two"
# tomli's message (a pattern), our message, and the hint.
_WORDS = (
    (r"Invalid value", "expected a value", 'text needs quotes: key = "value"; true and false are lower-case'),
    (r"Invalid statement", "expected a key, a table or a comment", _LINE),
    (r"Invalid initial character for a key part", "expected a key", _LINE),
    (r"Expected '=' after a key.*", "`=` is missing after the key", _LINE),
    (r"Expected newline or end of document.*", "unexpected text after the value", "start a new line, or a comment"),
    (r"Expected '\]+' at the end of .*", "the header is not closed", "headers are `[table]` or `[[array]]`"),
    (r"Unclosed array", "an array is not closed", "a `]` is missing before this"),
    (r"Unclosed inline table", "an inline table is not closed", "a `}` is missing before this"),
    (r"(Unterminated string|Illegal character '\\[nr]')", "a string is not closed", 'a `"` is missing before this'),
    (r"Illegal character (.*)", r"the character \1 is not allowed here", r"write it as an escape, e.g. \u0000"),
    (r"Unescaped '\\+' in a string", "a `\\\\` in a string starts an escape", r'write \\, or use single quotes'),
    (r"Cannot overwrite a value", _TWICE, _ONCE),
    (r"Duplicate inline table key '(.*)'", r"the key `\1` is defined twice", _ONCE),
    (r"Invalid date or datetime", "no such date or time", "put it in quotes to make it a string"),
)  # fmt: skip


class TomlError(Exception):
    """The text is not TOML; `position` is (line, column), both from 1, or None for the whole file."""

    def __init__(self, message: str, hint: str, position: tuple[int, int] | None) -> None:
        super().__init__(message)
        self.message, self.hint, self.position = message, hint, position


def parse(text: str) -> Mapping[str, Any]:
    """Parse a TOML document; raises TomlError for every error in it."""
    if text.startswith("\ufeff"):
        hint = "save it as UTF-8 without it (“UTF-8”, not “UTF-8 with BOM”)"
        raise TomlError("the file starts with a byte order mark", hint, (1, 1))
    if (at := datafile.long_key(text)) is not None:
        position = (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
        raise TomlError(f"a key has more than {datafile.MOST_PARTS} parts", "use fewer dots", position)
    try:
        return tomli.loads(text, parse_float=WrittenFloat)
    except tomli.TOMLDecodeError as error:
        message, hint = _in_words(error.msg)
        position = (error.lineno, error.colno)
        if message == _TWICE:  # tomli names the place behind the value
            line = text.split("\n")[error.lineno - 1]
            if given := re.match(r"(\s*)([^\s=\[#][^=]*?)\s*=", line):
                message, position = (
                    f"the key `{given[2]}` is defined twice",
                    (error.lineno, len(given[1]) + 1),
                )
        raise TomlError(f"not valid TOML: {message}", hint, position) from None
    except RecursionError:
        raise TomlError("values are nested too deeply", "use fewer levels", None) from None
    except ValueError:  # the only other one: an integer of more digits than Python converts
        raise TomlError("a number has too many digits", "use a smaller number", None) from None


def _in_words(complaint: str) -> tuple[str, str]:
    for pattern, message, hint in _WORDS:
        if match := re.fullmatch(pattern, complaint):
            return match.expand(message), hint
    if table := re.search(r"\((.*)\)", complaint):  # Cannot declare ('a', 'b') twice, and the like
        name = ".".join(toml_key(key) for key in re.findall(r"'([^']*)'", table[1]))
        return f"[{name}] is defined twice", _ONCE
    return complaint[:1].lower() + complaint[1:], "https://toml.io/en/v1.0.0 describes the format"
