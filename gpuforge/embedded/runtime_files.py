"""The runtime's source files: its folder, which of them go into wheels, and those that builds use by themselves."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "runtime"
SUFFIXES = frozenset({".py", ".c", ".h"})  # of the files that go into wheels
ABI_C = FOLDER / "abi.c"  # compiled into each library that has an ABI id
# The files that compute ABI ids and read them from libraries; a test holds that they import no others.
ABI = (ABI_C, *(FOLDER / name for name in ("abi_id.py", "elf.py", "document.py")))
