"""The tables that the audit judges by: TOML files beside this module, each row with its source."""

from __future__ import annotations

from typing import Any

from gpuforge import datafile


def load(name: str) -> dict[str, Any]:
    """Return one of the files in `data`."""
    return datafile.load(__file__, name)
