"""Runs a step program: reads its request from a file, turns an error into a message and an exit status."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError
from gpuforge.plan.requests.request import R, load
from gpuforge.plan.step_result import StepResult

INTERRUPTED = 130
INTERNAL = 70  # EX_SOFTWARE of sysexits.h
FULL = {errno.ENOSPC, errno.EDQUOT}


def run(kind: type[R], main: Callable[[R], Mapping[str, Any] | None]) -> None:
    """Call `main` with the request in the file of the first argument; the second is the file for the result.

    `main` returns the counts of the result; the notes of an error are shown before it. SIGTERM reaches `main` as
    KeyboardInterrupt, so that it can clean up.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    file, *others = map(Path, sys.argv[1:])
    error, status = None, 0
    counts: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()
    try:
        counts = main(load(kind, file.read_bytes())) or {}
    except GpuforgeError as problem:
        error, status = _together(problem.diagnostics), problem.exit_code
        notes = tuple("\n".join(getattr(problem, "__notes__", ())).splitlines())
    except KeyboardInterrupt:
        error, status = Diagnostic("interrupted"), INTERRUPTED
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        hint = "free some space, or choose another folder" if problem.errno in FULL else ""
        error, status = Diagnostic(f"{where}{problem.strerror or problem}", hint=hint), 1
    except Exception as problem:  # noqa: BLE001  the last resort: a fault of gpuforge
        message = f"gpuforge itself failed: {type(problem).__name__}: {problem}"
        error, status = Diagnostic(message, hint="this is a bug: report it"), INTERNAL
    with suppress(OSError):  # the disk of the log or of the result may be full
        for result in others:
            StepResult(error, counts, notes).write(result)
        sys.stdout.flush()
    if error:
        sys.stderr.write(f"error: {error}\n")
    raise SystemExit(status)


def _together(problems: tuple[Diagnostic, ...]) -> Diagnostic:
    """Join the problems of one error: the place is the first one's."""
    messages = "; ".join(each.message for each in problems)
    hints = "; ".join(dict.fromkeys(each.hint for each in problems if each.hint))
    return Diagnostic(messages, problems[0].place, hints)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
