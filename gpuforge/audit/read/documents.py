"""Read JSON documents of a wheel, which may be hostile, within the budget of its archive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gpuforge.audit.embedded import Unusable
from gpuforge.runtime.document import Damaged, parse
from gpuforge.wheel.archive import Archive, Member

_LARGEST = 1 << 20  # bytes; gpuforge writes some hundred per module
_PARSED = 8  # characters of the budget for each of the JSON, as parsed lists are larger than their text

_Value = TypeVar("_Value")


def read(archive: Archive, member: Member, fit: Callable[[dict[str, Any]], _Value]) -> _Value | Unusable:
    """Return the value that `fit` makes of a document, or why it is unusable.

    `fit` raises Damaged for a document that does not fit its schema. Raises MalformedError for a broken archive.
    """
    if member.size > _LARGEST:
        return Unusable("unreadable", f"it is {member.size} bytes long")
    archive.budget.spend("names", _PARSED * member.size)
    try:
        found = parse(archive.data(member))
    except Damaged as damaged:
        return Unusable("unreadable", str(damaged))
    try:
        return fit(found)
    except Damaged as damaged:
        return Unusable("schema", str(damaged))
