"""Values that one step writes and another reads, as JSON: NamedTuples are arrays in it, and their types are checked."""

import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from gpuforge import disk

T = TypeVar("T")


def write(value: Any, file: Path) -> None:
    """Write a value, equal ones in the same bytes; raises ActionError when the disk is full."""
    disk.write_text(file, json.dumps(value, indent=1, sort_keys=True, default=_plain) + "\n")


def read(kind: type[T], file: Path) -> T:
    """Read what `write` wrote."""
    value: T = TypeAdapter(kind).validate_json(file.read_bytes())
    return value


def _plain(value: Set[str] | Mapping[str, Any]) -> list[str] | dict[str, Any]:
    return sorted(value) if isinstance(value, Set) else dict(value)
