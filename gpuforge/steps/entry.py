"""The way every step program ends: its error as a message on stderr and an exit status, never a traceback."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from gpuforge.errors import GpuforgeError

INTERRUPTED = 130
INTERNAL = 70  # EX_SOFTWARE of sysexits.h
FULL = {errno.ENOSPC, errno.EDQUOT}


def run(main: Callable[[list[str]], None]) -> None:
    """Call `main` with the arguments; SIGTERM reaches it as KeyboardInterrupt, so that it can clean up."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        main(sys.argv[1:])
    except GpuforgeError as problem:
        _leave(str(problem), problem.exit_code)
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        said = problem.strerror or str(problem)
        hint = "\n  hint: free some space, or choose another folder" if problem.errno in FULL else ""
        _leave(f"{where}{said}{hint}", 1)
    except Exception as problem:  # noqa: BLE001  the last resort: a fault of ours, told as one
        _leave(
            f"gpuforge itself failed: {type(problem).__name__}: {problem}\n  hint: this is a bug: report it",
            INTERNAL,
        )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _leave(message: str, status: int) -> None:
    with suppress(OSError):  # the log's own disk may be the one that is full
        sys.stdout.flush()
    sys.stderr.write(f"error: {message}\n")
    raise SystemExit(status)
