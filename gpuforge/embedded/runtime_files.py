"""The runtime's source files: its folder, and which of them go into wheels."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "runtime"
SUFFIXES = frozenset({".py", ".c", ".h"})  # of the files that go into wheels
