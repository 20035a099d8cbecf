"""A guess at what a value of the wrong type means: the first reading that the model accepts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpuforge.manifest import fields
from gpuforge.manifest.syntax import WrittenFloat


def reading(found: object, location: fields.Location) -> object | None:
    """Return the value that `found` probably means for the key at `location`; None if no reading fits."""
    annotation = fields.annotation_at(location)
    if annotation is None:
        return None
    accepted: TypeAdapter[Any] = TypeAdapter(annotation)
    for candidate in _readings(found, words=fields.is_command(annotation)):
        try:
            accepted.validate_python(candidate)
        except ValidationError:
            continue
        return candidate
    return None


def number_text(value: float) -> str:
    """Return a number or truth value as the manifest writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, WrittenFloat):
        return value.text
    # Python refuses to write integers of very many digits, which TOML can give in hexadecimal.
    return hex(value)[:20] + "…" if isinstance(value, int) and abs(value) >= 2**64 else str(value)


def _readings(found: object, *, words: bool) -> Iterator[object]:
    """Yield possible readings, the likeliest first; with `words`, text is a command line."""
    if isinstance(found, int | float):
        yield from _of_number(found)
    elif isinstance(found, str):
        yield from _of_text(found, words=words)
    elif isinstance(found, list) and all(isinstance(item, str) for item in found):
        yield [found]  # one command, where an array of commands is wanted
        if len(found) == 1:
            yield found[0]


def _of_number(found: float) -> Iterator[object]:
    text = number_text(found)
    # a version, a compute capability with its dot, a toolkit without its minor, a range, a size
    for meant in (text, text.replace(".", ""), f"{text}.0", f"=={text}.*", f"{text} MB"):
        yield meant
        yield [meant]


def _of_text(found: str, *, words: bool) -> Iterator[object]:
    if found in _TRUTH:
        yield _TRUTH[found]
    if not found.strip():
        return
    if words:
        with suppress(ValueError):  # an open quote
            meant = ["sh", "-c", found] if _SHELL.search(found) else shlex.split(found)
            yield meant
            yield [meant]
    yield [found]
    yield [part.strip() for part in found.split(",")]
    yield found.split()


# Characters with a meaning to shells only. Braces are placeholders of the manifest.
_SHELL = re.compile(r"[|&;<>$`*?]|^\s*\w+=")

_TRUTH: Mapping[str, bool] = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
