"""The build record of a wheel, `.dist-info/gpuforge.json`: what it was built with. It names nothing of the machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from gpuforge.cuda.provided import Floor, as_record
from gpuforge.wheel import unpacked

NAME = "gpuforge.json"
SCHEMA = 1


def write(tree: Path, content: Mapping[str, Any]) -> None:
    """Write the record into an unpacked wheel, keys sorted."""
    text = json.dumps({"schema": SCHEMA, **content}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (unpacked.dist_info(tree) / NAME).write_text(text, encoding="utf-8")


def packages(locked: Mapping[str, str], floors: Iterable[Floor]) -> dict[str, Any]:
    """Return what the record has of the packages: build requirements (wheels with their sha256), oldest releases."""
    wheels = sorted((*parse_wheel_filename(name)[:2], sha256) for name, sha256 in locked.items())
    return {
        "requirements": {name: {"version": str(v), "sha256": sha256} for name, v, sha256 in wheels},
        "floors": {floor.package: as_record(floor) for floor in floors},
    }
