"""Runs a step: reads its fields from a file, turns an error into a message and an exit status."""

import errno
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError, UsageError
from gpuforge.plan.action import Step, StepResult, Workdir

INTERRUPTED = 130
INTERNAL = 70  # EX_SOFTWARE of sysexits.h
FULL = {errno.ENOSPC, errno.EDQUOT}


def perform(name: str, request: Path, result: Path) -> int:
    """Run the step `name` ("wheel.PackageWheel") in this process; return its exit status.

    `request` is a file with its fields as JSON, in its working directory. `result` is the file for its `StepResult`, in
    the folder of its outputs. What else it needs is the process's: the working directory as current folder, the
    action's environment, the log as stdout and stderr. It changes all of these, takes SIGTERM, may set limits of
    resources and give itself private mounts, so it must be called in the main thread of a process without other
    threads, which ends with it. SIGTERM reaches the step as KeyboardInterrupt, so that it can clean up.
    """
    return reported(
        lambda: load(name, request.read_bytes()).run(Workdir(request.parent, result.parent)), result
    )


def reported(work: Callable[[], Mapping[str, Any] | None], result: Path | None) -> int:
    """Do some work, write its `StepResult`, and return the exit status; see `perform`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    error, status = None, 0
    counts: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()
    try:
        counts = work() or {}
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
        if result:
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10  # getrusage(2): in KiB
            StepResult(error, counts, notes, peak).write(result)
        sys.stdout.flush()
    if error:
        sys.stderr.write(f"error: {error}\n")
    return status


def load(name: str, text: str | bytes) -> Step[Path]:
    """Return the step of this name with the fields in a JSON text; raises UsageError with all that is wrong in it."""
    module, _, kind = name.partition(".")
    step: type[Step[Path]] = getattr(import_module(f"{__package__}.{module}"), kind)
    try:
        return TypeAdapter(step[Path], config=_CONFIG).validate_json(text)  # type: ignore[index,no-any-return]
    except ValidationError as error:
        raise UsageError.all_of(
            Diagnostic(f"request: {'.'.join(map(str, problem['loc'])) or 'JSON'}: {problem['msg']}")
            for problem in error.errors()
        ) from error


_CONFIG = ConfigDict(extra="forbid")


def _together(problems: tuple[Diagnostic, ...]) -> Diagnostic:
    """Join the problems of one error: the place is the first one's."""
    messages = "; ".join(each.message for each in problems)
    hints = "; ".join(dict.fromkeys(each.hint for each in problems if each.hint))
    return Diagnostic(messages, problems[0].place, hints)


if __name__ == "__main__":
    raise SystemExit(perform(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
