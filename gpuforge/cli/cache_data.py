"""The output of `gpuforge cache` for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gpuforge.execute.upkeep import ListedEntry


def entry_data(each: ListedEntry) -> dict[str, Any]:
    """Return an entry as plain data (schema 1); `used` in seconds since 1970."""
    return {
        "key": each.key,
        "kind": each.kind,
        "action": each.action,
        "bytes": each.size,
        "made": each.record.finished if each.record else None,
        "used": round(each.used),
    }


def print_json(cache: Path | str, **fields: Any) -> None:
    """Print data about a cache folder, or about the shared store at a URL."""
    click.echo(json.dumps({"schema": 1, "cache": str(cache)} | fields, indent=2))
