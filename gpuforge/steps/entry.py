"""Runs a step program: reads its request from a file, turns an error into a message and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuforge.actions.entry import INTERRUPTED, reported
from gpuforge.plan.requests.request import R, load

__all__ = ["INTERRUPTED", "run"]


def run(kind: type[R], main: Callable[[R], Mapping[str, Any] | None]) -> None:
    """Call `main` with the request in the file of the first argument; the second is the file for the result."""
    file, *others = map(Path, sys.argv[1:])
    result = others[0] if others else None
    raise SystemExit(reported(lambda: main(load(kind, file.read_bytes())), result))
