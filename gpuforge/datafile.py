"""TOML tables that are kept beside the module that reads them, and limits for TOML from outside."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import tomli

Row = TypeVar("Row")
_NOTES = frozenset({"source", "by-hand"})  # keys for those who maintain a table


@cache
def load(module: str, name: str) -> dict[str, Any]:
    """Return the content of `data/<name>` beside the file `module` (`__file__`); callers must not change it."""
    return tomli.loads((Path(module).parent / "data" / name).read_text(encoding="utf-8"))


def rows(kind: type[Row], table: Iterable[Mapping[str, Any]]) -> tuple[Row, ...]:
    """Return the rows of a table as NamedTuples of a kind, whose fields are the table's keys; lists become tuples."""
    return tuple(kind(**_fields(row)) for row in table)


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key.replace("-", "_"): tuple(value) if isinstance(value, list) else value
        for key, value in row.items()
        if key not in _NOTES
    }


LARGEST = 1 << 20  # bytes
MOST_PARTS = 32  # of a key: `tool.setuptools.packages` has three

# Each string ends with its line at the latest, so nothing is tried twice. No group repeats possessively: Python before
# 3.11.5 matches that wrongly (https://github.com/python/cpython/issues/106052).
_BASIC = r'"(?:[^"\\\n]++|\\.)*(?:"|(?=\n)|\\?\Z)'
_LITERAL = r"'[^'\n]*+(?:'|(?=\n)|\Z)"
_DOT = r"[ \t]*+\.[ \t]*+"
_PART = rf"(?:[\w-]++|{_BASIC}|{_LITERAL})"
# The text is read once from its beginning to its end, so that a dot in a string or in a comment is not one of a key.
_TOKEN = re.compile(
    r"#[^\n]*+"
    r'|"""(?:[^"\\]++|\\.|"(?!""))*(?:"""|\\?\Z)'
    r"|'''(?:[^']++|'(?!''))*(?:'''|\Z)"
    rf"|(?P<long>{_PART}(?:{_DOT}{_PART}){{{MOST_PARTS}}})"
    rf"|{_PART}(?:{_DOT}{_PART})*",
    re.DOTALL,
)


def long_key(text: str) -> int | None:
    """Return where the first key with more than `MOST_PARTS` parts begins, None if there is none."""
    return next((found.start() for found in _TOKEN.finditer(text) if found["long"]), None)
