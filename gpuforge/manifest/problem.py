"""A problem in the manifest, and readers of raw data that may have any form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuforge.manifest.positions import KeyPath
from gpuforge.manifest.quoting import quote

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
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


def object_title(thing: Raw) -> str:
    """Name an element of `[[objects]]` in a message."""
    name = thing.get("name")
    return f"[[objects]] {quote(name)}" if isinstance(name, str) else "[[objects]]"
