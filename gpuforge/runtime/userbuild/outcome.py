"""How a compilation can end without a library: one message, and the exit status that goes with it."""

from __future__ import annotations

FAILED, USAGE, MISSING, INTERRUPTED = 1, 2, 3, 130


class Stopped(Exception):  # noqa: N818  an end that was foreseen
    """Nothing was activated: `args[0]` says why and what to do, in one line; `status` is the exit status."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status
