"""The tables that the audit judges by: TOML files beside this module, each row with its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli


def load(name: str) -> dict[str, Any]:
    """Return one of the files in `data`."""
    return tomli.loads((Path(__file__).parent / "data" / name).read_text(encoding="utf-8"))
