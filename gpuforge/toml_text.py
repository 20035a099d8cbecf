"""Limits for TOML from outside: parsing time grows with the square of the parts of a key."""

from __future__ import annotations

import re

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
