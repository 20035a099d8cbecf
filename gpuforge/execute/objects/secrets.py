"""Keeps credentials out of messages: a library's error may contain the address or the key it used."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMES = re.compile(r"KEY|SECRET|TOKEN|PASSW|CREDENTIAL|CONNECTION_STRING", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+@")
_QUERY = re.compile(r"(\w://[^\s?]+)\?[^\s\"']+")
_SHORTEST = 6  # characters of a value that is looked for
HIDDEN = "…"


def hidden(text: str, environ: Mapping[str, str]) -> str:
    """Return a text without user names and queries of addresses, and without the values of secret variables."""
    text = _QUERY.sub(rf"\1?{HIDDEN}", _IN_ADDRESS.sub(f"{HIDDEN}@", text))
    values = (value for name, value in environ.items() if _NAMES.search(name) and len(value) >= _SHORTEST)
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text
