"""An action's log: its head, which has all that is needed to run the command by hand, and its lines about a failure."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from operator import not_
from pathlib import Path
from typing import IO

from gpuforge.plan.action import Action

TAIL_LINES = 20
_TAIL_BYTES = 64 * 1024
_LINE_BYTES = 4 * 1024
_LOG_BYTES = 8 * 1024 * 1024  # of a longer log, only the end is read
# How a line that reports an error begins: of compilers, linkers, make, Ninja, CMake and Python.
_ERROR = re.compile(
    r"(?:^|[\s:])(?:fatal |catastrophic |internal compiler )?error(?: \w+)?: |^FAILED: |^CMake Error"
    r"|undefined reference to|cannot find -l|\*\*\* .*Error"
    r"|\b(?:fatal|error) {2,}: |^\w+(?:Error|Exception): "
)
_RETRIES = "WARNING: Retrying (Retry("
_NOT_FOUND = (
    "ERROR: Could not find a version that satisfies", "ERROR: No matching distribution found", "Looking in ",
    "WARNING: Location ",
)  # fmt: skip
_BEFORE = 6  # lines shown before a traceback: what the script printed about its trouble
_FURTHER = 4  # lines shown after an error: the source that a compiler points at


def header(
    action: Action,
    argv: list[str],
    env: Mapping[str, str],
    work: Path,
    *,
    where: Sequence[str] = (),
    request: str = "",
) -> str:
    """Return the head of a log, with the request, and without the values of variables that are passed through."""
    variables = [
        f"#   {name}={shlex.quote(value) if name not in action.passes else '(from the caller)'}"
        for name, value in sorted(env.items())
    ]
    lines = [
        f"# {action.title}",
        *(f"# {line}" for line in where),
        f"# in {work} with",
        *variables,
        *(f"# {line}" for line in request.splitlines()),
        f"$ {shlex.join(argv)}",
    ]
    # an empty line in a quoted word would end the head: its line feed is written as bash's $'\n'
    return re.sub(r"\n(?=\n)", r"'$'\\n''", "\n".join(lines)) + "\n\n"


def skip(log: IO[bytes]) -> None:
    """Move from the start of a log to the command's output, which is all of a log without a head."""
    if not log.readline().startswith(b"# "):
        log.seek(0)
        return
    while log.readline() not in {b"\n", b""}:
        pass


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
            skip(stream)
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
