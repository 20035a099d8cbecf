"""Values that one step writes and another reads, as JSON: NamedTuples are arrays in it, and their types are checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


def write(value: Any, file: Path) -> None:
    """Write a value, equal ones in the same bytes."""
    file.write_text(json.dumps(value, indent=1, sort_keys=True, default=dict) + "\n")


def read(kind: type[T], file: Path) -> T:
    """Read what `write` wrote."""
    value: T = TypeAdapter(kind).validate_json(file.read_bytes())
    return value
