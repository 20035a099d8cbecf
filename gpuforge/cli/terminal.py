"""The output of every command: results to stdout, everything else to stderr."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from gpuforge.diagnostics import Diagnostic, shown_lines

if TYPE_CHECKING:
    from rich.console import Console


_RED = "\x1b[31m\x1b[1m"
_PLAIN = "\x1b[0m"


def say(message: str, before: str = "") -> None:
    """Write one line to stderr; control characters for terminals and CI systems are escaped."""
    if sys.stderr is not None:  # None after `2>&-`
        try:
            sys.stderr.write(f"{before}{shown_lines(message)}\n")
        except OSError:  # its reader is gone or its disk is full: result and status are the same
            drop_output(2)


def complain(diagnostics: Sequence[Diagnostic]) -> None:
    """Write diagnostics to stderr, each as `error: place: message` and its hint."""
    error = f"{_RED}error: {_PLAIN}" if in_color(sys.stderr) else "error: "
    for diagnostic in diagnostics:
        say(str(diagnostic), before=error)
    if len(diagnostics) > 1:
        say(f"{len(diagnostics)} errors")


def result(pieces: Iterable[str]) -> None:
    """Write a result to stdout, piece by piece."""
    if sys.stdout is not None:  # None after `>&-`
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # names that the encoding lacks
        try:
            sys.stdout.writelines(pieces)
            sys.stdout.flush()
        except OSError as error:
            error.filename = error.filename or "the standard output"
            raise


def drop_output(*streams: int) -> None:
    """Stop writing to these (1 is stdout, 2 stderr): their reader ended, as `head` does."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream)


def in_color(stream: TextIO | None) -> bool:
    """Return whether to write in colour: to a terminal, or if a CI system requests it (force-color.org)."""
    if os.environ.get("NO_COLOR"):  # no-color.org
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (
        stream is not None and stream.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}
    )


def count(number: int, what: str, plural: str = "") -> str:
    """Write a number with its noun: `1 cell`, `2 cells`, `2 entries`."""
    return f"{number} {what}" if number == 1 else f"{number} {plural or f'{what}s'}"


def results_console() -> Console:
    """Return a console that wraps lines on a terminal, but not in a pipe, whose readers need whole lines."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 10_000)
