"""A problem in the manifest, values in messages, and readers of raw data that may have any form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

KeyPath = tuple[str | int, ...]
"""Keys and array indices that lead from the top of the document to a value: ("cuda", "13", "archs", 0)."""
Raw = Mapping[str, Any]
VERSION_KEY = r"^[0-9]+(\.[0-9]+)?$"
"""The form of the key of a `[cuda.<version>]` table: a major, or major.minor."""


class WrittenFloat(float):
    """A number that a message shows as it was written: 3.10 is often a version without its quotes."""

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        """Parse the text of a number."""
        number = super().__new__(cls, text)
        number.text = text
        return number


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


class Problem(NamedTuple):
    """Something wrong at `path`; `at_key` places it at the key instead of the value."""

    path: KeyPath
    message: str
    hint: str = ""
    at_key: bool = False


def table(data: Raw, name: str) -> Raw:
    """Return a table of the data; an empty one for anything else."""
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def text_of(data: Raw, key: str) -> str:
    """Return a text of the data; an empty one for anything else."""
    found = data.get(key)
    return found if isinstance(found, str) else ""


def compiler_of(data: Raw, toolchain: str) -> str:
    """Return the compiler of a toolchain of the manifest's data; an empty text where it names none."""
    found = table(data, "toolchains").get(toolchain)
    return text_of(found, "compiler") if isinstance(found, Mapping) else ""


def numbered(things: object) -> Iterator[tuple[int, Raw]]:
    """Yield the tables of an array with their places in it."""
    for index, thing in enumerate(things if isinstance(things, list) else []):
        if isinstance(thing, Mapping):
            yield index, thing


def toolkits_of(data: Raw) -> Iterator[tuple[str, Raw]]:
    """Yield the tables `[cuda.<version>]` with the name of each."""
    for key, version in table(data, "cuda").items():
        if re.search(VERSION_KEY, key) and isinstance(version, Mapping):
            yield key, version


def texts_of(things: object) -> Iterator[tuple[int, str]]:
    """Yield the texts of an array with their places in it."""
    for index, thing in enumerate(things if isinstance(things, list) else []):
        if isinstance(thing, str):
            yield index, thing


def object_title(thing: Raw) -> str:
    """Name an element of `[[objects]]` in a message."""
    name = thing.get("name")
    return f"[[objects]] {quote(name)}" if isinstance(name, str) else "[[objects]]"


def number_text(value: float) -> str:
    """Return a number or truth value as the manifest writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, WrittenFloat):
        return value.text
    # Python refuses to write integers of very many digits, which TOML can give in hexadecimal.
    return hex(value)[:20] + "…" if isinstance(value, int) and abs(value) >= 2**64 else str(value)


def toml_key(key: str) -> str:
    """Write a key of a TOML table, in quotes where it needs them."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)
