"""The file of the build record of a wheel: `.dist-info/gpuforge.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpuforge.cuda.provided import Floor, as_record
from gpuforge.wheel import unpacked
from gpuforge.wheel.locked_wheels import LockedRelease

NAME = "gpuforge.json"
SCHEMA = 1


def write(tree: Path, record: Mapping[str, Any], packages: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Write the record into an unpacked wheel, with the entries about packages, keys sorted."""
    content = {"schema": SCHEMA, **record, **packages}
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (unpacked.dist_info(tree) / NAME).write_text(text, encoding="utf-8")


def packages(locked: Iterable[LockedRelease], floors: Iterable[Floor]) -> dict[str, Any]:
    """Return the record's entries about packages: the build requirements, and the oldest releases that fit."""
    return {
        "requirements": {
            each.project: {"version": str(each.version), "sha256": each.sha256} for each in locked
        },
        "floors": {floor.package: as_record(floor) for floor in floors},
    }
