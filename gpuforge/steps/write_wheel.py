"""Write a finished wheel, at a fixed time and within its limit of size."""

from __future__ import annotations

import os
from pathlib import Path

from gpuforge.errors import ActionError, UsageError
from gpuforge.steps import wheel_sizes
from gpuforge.wheel import unpacked


def write(tree: Path, target: Path, size_limit: int | None) -> Path:
    """Write the wheel `target` and return it; raises ActionError, and leaves none, when it exceeds the limit."""
    unpacked.write(tree, target, epoch=epoch())
    try:
        wheel_sizes.check(target, size_limit)
    except ActionError:
        target.unlink()
        raise
    return target


def epoch() -> int | None:
    """Return SOURCE_DATE_EPOCH (seconds since 1970), None when it is not set; raises UsageError for other text."""
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return None
    if not text.isdigit():
        raise UsageError.of(f"SOURCE_DATE_EPOCH is {text!r}, not a number of seconds", hint="unset it")
    return int(text)
