"""The message for an action that failed."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
from collections.abc import Iterable, Sequence
from itertools import dropwhile
from operator import not_
from pathlib import Path

from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError
from gpuforge.execute.runners import log_header
from gpuforge.plan.action import Action

TAIL_LINES = 20
_TAIL_BYTES = 64 * 1024
_LINE_BYTES = 4 * 1024
_LOG_BYTES = 8 * 1024 * 1024  # of a longer log, only the end is read
_NOTHING = 64 * 1024  # bytes; a disk with less free is full
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_ROOM = "make room (`df -h` shows which disk is full), then run the same command again: finished work is kept"


# How a line that reports an error begins: of compilers, linkers, make, Ninja, CMake and Python.
_ERROR = re.compile(
    r"(?:^|[\s:])(?:fatal |catastrophic |internal compiler )?error(?: \w+)?: |^FAILED: |^CMake Error"
    r"|undefined reference to|cannot find -l|\*\*\* .*Error"
    r"|\b(?:fatal|error) {2,}: |^\w+(?:Error|Exception): "
)
_RETRIES = "WARNING: Retrying (Retry("
_NOT_FOUND = ("ERROR: Could not find a version that satisfies", "ERROR: No matching distribution found")
_BEFORE = 6  # lines shown before a traceback: what the script printed about its trouble
_FURTHER = 4  # lines shown after an error: the source that a compiler points at


def tail(log: Path) -> tuple[str, ...]:
    """Return the last lines of a command's output, as text, without control characters and the log's own head.

    Empty when the log cannot be read. What pip writes about an index that it cannot reach is left out, as the error
    says that.
    """
    lines = _output(log, _TAIL_BYTES)
    if any(line.startswith(_RETRIES) for line in lines):
        lines = tuple(line for line in lines if not line.startswith((_RETRIES, *_NOT_FOUND)))
    return lines[-TAIL_LINES:]


def last_line(log: Path) -> str:
    """Return the last line of a command's output so far, "" for none."""
    return next((line for line in reversed(_output(log, _LINE_BYTES)) if line), "")


def errors(log: Path) -> tuple[str, ...]:
    """Return the lines of a build's log that report errors, from the first one on; its last lines if none does.

    Parallel jobs write into one log, so warnings of others stand between and after the errors. If the first error is
    that of a Python traceback, the lines before the traceback come first.
    """
    lines = _output(log, _LOG_BYTES)
    found: list[str] = []
    further = 0
    for line in lines:
        if _ERROR.search(line):
            found.append(line)
            further = _FURTHER
        elif further and (not line or line.startswith("  ")):
            found.append(line)
            further -= 1
        else:
            further = 0
    return (*_before_traceback(lines, found[0]), *found)[:TAIL_LINES] if found else lines[-TAIL_LINES:]


def _before_traceback(lines: Sequence[str], error: str) -> list[str]:
    """Return the lines before the traceback that ends with an error; none if there is no traceback."""
    above = lines[: lines.index(error)]
    starts = [at for at, line in enumerate(above) if line.startswith("Traceback (most recent call last)")]
    if not starts or not all(
        line.startswith((" ", "|", "+")) or not line for line in above[starts[-1] + 1 :]
    ):
        return []
    return [line for line in above[: starts[0]] if line][-_BEFORE:]


def _output(log: Path, most: int) -> tuple[str, ...]:
    """Return the lines of the last `most` bytes of a log, without its head; none when it cannot be read."""
    try:
        with log.open("rb") as stream:
            log_header.skip(stream)
            start, end = stream.tell(), stream.seek(0, os.SEEK_END)
            stream.seek(max(start, end - most))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ()
    lines = [_printable(line.rstrip("\r").rpartition("\r")[2]) for line in text.rstrip().split("\n")]
    return tuple(line.rstrip() for line in dropwhile(not_, lines))


def _printable(line: str) -> str:
    line = line.expandtabs()
    return line if line.isprintable() else "".join(c for c in line if c.isprintable())


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
            hint="most often memory ran out: try a smaller --jobs",
        )
    if status < 0:
        return Diagnostic(f"{name} was ended by {_signal(-status)}", hint="its log shows how far it came")
    advised = _advised(action, [*causes, *lines])
    if reported is None:
        hint = advised or "its log shows the command and its output"
        return Diagnostic(f"{name} failed with exit status {status}", hint=hint)
    return reported._replace(hint=advised or reported.hint)


def _advised(action: Action, lines: Sequence[str]) -> str:
    """Return the hint of the first advice that matches a line; "" if none does."""
    return next(
        (each.hint for each in action.advice if any(re.search(each.pattern, line) for line in lines)), ""
    )


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


def of_missing(name: str, outputs: Sequence[str]) -> Diagnostic:
    """Return the message for a command that succeeded but left outputs out."""
    what = " and ".join(outputs)
    return Diagnostic(
        f"{name} ended without an error but did not make {what}", hint="its log shows what it did instead"
    )


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
