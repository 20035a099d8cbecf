"""Read JSON documents of a wheel, which anybody may have written: bounded, each value of the type that is expected."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from gpuforge.audit.kernels import Unusable
from gpuforge.wheel.archive import Archive, Member

_LARGEST = 1 << 20  # bytes; gpuforge writes some hundred for each module
_PARSED = 8  # characters of the budget for each of JSON, whose lists and numbers take more room than its text

Document = dict[str, Any]
_Value = TypeVar("_Value")


class Unfit(Exception):  # noqa: N818  a fact about a document, which becomes a value
    """A document does not fit its schema; the message is the key that it lacks, where that is told."""


def read(archive: Archive, member: Member, fit: Callable[[Document], _Value]) -> _Value | Unusable:
    """Return what `fit` makes of a document, or why it cannot be used. Raises MalformedError for a broken archive."""
    if member.size > _LARGEST:
        return Unusable("size", str(member.size))
    archive.budget.spend("names", _PARSED * member.size)
    try:
        found = json.loads(archive.data(member))
    except (ValueError, RecursionError) as error:
        return Unusable("syntax", str(error))
    if not isinstance(found, dict):
        return Unusable("type")
    try:
        return fit(found)
    except Unfit as unfit:
        return Unusable("schema", str(unfit))


def text(entry: Document, key: str, otherwise: str | None = None) -> str:
    """Return a text; raises Unfit."""
    value = entry.get(key, otherwise)
    if not isinstance(value, str):
        raise Unfit
    return value


def texts(entry: Document, key: str) -> tuple[str, ...]:
    """Return a list of texts, empty where there is none; raises Unfit."""
    return tuple(text({key: value}, key) for value in listed(entry, key))


def tables(entry: Document, key: str) -> list[Document]:
    """Return a list of objects, empty where there is none; raises Unfit."""
    found = listed(entry, key)
    if not all(isinstance(value, dict) for value in found):
        raise Unfit
    return found


def listed(entry: Document, key: str) -> list[Any]:
    """Return a list of any values, empty where there is none; raises Unfit."""
    found = entry.get(key, [])
    if not isinstance(found, list):
        raise Unfit
    return found
