"""The build record of a wheel, `.dist-info/gpuforge.json`: what it was built with. It names nothing of the machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuforge.wheel import unpacked

NAME = "gpuforge.json"
SCHEMA = 1


def write(tree: Path, content: Mapping[str, Any]) -> None:
    """Write the record into an unpacked wheel, keys sorted."""
    text = json.dumps({"schema": SCHEMA, **content}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (unpacked.dist_info(tree) / NAME).write_text(text, encoding="utf-8")
