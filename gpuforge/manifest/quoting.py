"""Values of the manifest in messages: quoted, on one line, without control characters."""

from __future__ import annotations


def quote(value: object) -> str:
    """Quote a value for a message, on one line and no longer than a line."""
    text = hex(value) if isinstance(value, int) and value.bit_length() > 1000 else str(value)
    text = text if len(text) <= 60 else text[:57] + "…"
    return f'"{printable(text)}"'


def printable(text: str) -> str:
    """Return the text on one line, with escapes for control characters and others that steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
