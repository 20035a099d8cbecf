"""The message for an action that failed."""

import errno
import os
import re
import shutil
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError
from gpuforge.plan.action import Action

_NOTHING = 64 * 1024  # bytes; a disk with less free is full
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_ROOM = "make room (`df -h` shows which disk is full), then run the same command again: finished work is kept"


def of_status(
    action: Action,
    status: int,
    lines: Sequence[str],
    places: Iterable[Path] = (),
    causes: Sequence[str] = (),
    reported: Diagnostic | None = None,
) -> Diagnostic:
    """Return the message for a command that ended with a status other than 0 (negative: a signal's number).

    `lines` is the end of its output, and `causes` are the lines that the action's advice is matched with; `places` are
    the folders that it wrote to, one of which may be full; `reported` is the error that a step wrote into its result.
    """
    name = action.id
    if any(sign in line for sign in _FULL for line in lines) or any(_is_full(place) for place in places):
        return Diagnostic(f"{name} failed: the disk is full", hint=_ROOM)
    if status == -signal.SIGKILL:
        return Diagnostic(
            f"{name} was killed by the system (SIGKILL)",
            hint="most often memory ran out: try a smaller --memory or --jobs",
        )
    if status < 0:
        return Diagnostic(f"{name} was ended by {_signal(-status)}", hint="its log shows how far it came")
    texts = [*causes, *lines]
    fitting = (a.hint for a in action.advice if any(re.search(a.pattern, line) for line in texts))
    advised = next(fitting, "")
    if reported is None:
        hint = advised or "its log shows the command and its output"
        return Diagnostic(f"{name} failed with exit status {status}", hint=hint)
    return reported._replace(hint=advised or reported.hint)


def _is_full(place: Path) -> bool:
    try:
        return shutil.disk_usage(place).free < _NOTHING
    except OSError:
        return False


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _first(error: shutil.Error) -> OSError:
    """Return the first error that `shutil.copytree` collected; it keeps their numbers only as text."""
    _, target, text = error.args[0][0]
    if any(sign in text for sign in _FULL):
        return OSError(errno.ENOSPC, _FULL[0], target)
    return OSError(text)


def of_error(name: str, error: OSError | GpuforgeError) -> Diagnostic:
    """Return the message for an action that could not be run."""
    if isinstance(error, GpuforgeError):
        first, *others = error.diagnostics
        message = "; ".join([first.message, *(other.message for other in others)])
        return Diagnostic(message, first.place, first.hint)
    # If an error has two paths, those of a copy, the disk of the second one is full.
    name_of = error.filename2 if error.errno in _NO_ROOM and error.filename2 else error.filename
    where = f" ({name_of})" if name_of else ""
    if isinstance(error, shutil.Error):  # copying a folder goes on after an error and lists them all
        return of_error(name, _first(error))
    if error.errno in _NO_ROOM:
        return Diagnostic(f"{name} failed: the disk is full{where}", hint=_ROOM)
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return Diagnostic(
            f"{name} failed: {error.strerror}{where}",
            hint="check who owns that path and whether it is writable",
        )
    return Diagnostic(
        f"{name} failed: {error.strerror or error}{where}", hint="see its log for how far it came"
    )
