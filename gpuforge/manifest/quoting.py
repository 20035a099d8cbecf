"""Values of the manifest in messages: quoted, on one line, without control characters."""

from __future__ import annotations

import re


def quote(value: object) -> str:
    """Quote a value for a message, on one line and no longer than a line."""
    text = hex(value) if isinstance(value, int) and value.bit_length() > 1000 else str(value)
    text = _without_secrets(text)
    text = text if len(text) <= 60 else text[:57] + "…"
    return f'"{printable(text)}"'


def _without_secrets(text: str) -> str:
    """Return a text without user names, passwords and tokens in URLs."""
    text = re.sub(r"(://)[^/\s@]*@|(^|\s)[^\s/@:]+:[^\s/@]+@", r"\1\2…@", text)
    return re.sub(r"(://[^\s?]*\?)\S+", r"\1…", text)


def printable(text: str) -> str:
    """Return the text on one line, with escapes for control characters and others that steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
