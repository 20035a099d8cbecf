"""The build record of a wheel, `.dist-info/gpuforge.json`: what it was built with. It names nothing of the machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpuforge.cuda.provided import Floor, as_record
from gpuforge.wheel import unpacked
from gpuforge.wheel.locked_wheels import LockedRelease

NAME = "gpuforge.json"
SCHEMA = 1


def write(tree: Path, content: Mapping[str, Any]) -> None:
    """Write the record into an unpacked wheel, keys sorted."""
    text = json.dumps({"schema": SCHEMA, **content}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (unpacked.dist_info(tree) / NAME).write_text(text, encoding="utf-8")


def packages(locked: Iterable[LockedRelease], floors: Iterable[Floor]) -> dict[str, Any]:
    """Return the record's entries about packages: the build requirements, and the oldest releases that fit."""
    return {
        "requirements": {
            each.project: {"version": str(each.version), "sha256": each.sha256} for each in locked
        },
        "floors": {floor.package: as_record(floor) for floor in floors},
    }
