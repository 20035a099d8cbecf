"""TOML tables that are kept in the folder `data` beside the module that reads them."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import tomli

Row = TypeVar("Row")
_NOTES = frozenset({"source", "by-hand"})  # keys for those who maintain a table


@cache
def load(module: str, name: str) -> dict[str, Any]:
    """Return the content of `data/<name>` beside the file `module` (`__file__`); callers must not change it."""
    return tomli.loads((Path(module).parent / "data" / name).read_text(encoding="utf-8"))


def rows(kind: type[Row], table: Iterable[Mapping[str, Any]]) -> tuple[Row, ...]:
    """Return the rows of a table as NamedTuples of a kind, whose fields are the table's keys; lists become tuples."""
    return tuple(kind(**_fields(row)) for row in table)


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key.replace("-", "_"): tuple(value) if isinstance(value, list) else value
        for key, value in row.items()
        if key not in _NOTES
    }
