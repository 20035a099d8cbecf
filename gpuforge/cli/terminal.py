"""The output of every command: results to stdout, everything else to stderr."""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from gpuforge.diagnostics import Diagnostic, shown, shown_lines

if TYPE_CHECKING:
    from rich.console import Console


def say(message: str, before: str = "", **style: Any) -> None:
    """Write one line to stderr, in a style of `click.style`; control characters for terminals and CI are escaped."""
    if sys.stderr is not None:  # None after `2>&-`
        try:
            sys.stderr.write(f"{before}{_styled(shown_lines(message), sys.stderr, style)}\n")
        except OSError:  # its reader is gone or its disk is full: result and status are the same
            drop_output(2)


def complain(diagnostics: Sequence[Diagnostic]) -> None:
    """Write diagnostics to stderr, each as `error: place: message` and its hint."""
    error = _styled("error: ", sys.stderr, {"fg": "red", "bold": True})
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


def line(text: str = "", mark: str = "", **style: Any) -> None:
    """Write one line of a result to stdout; a style of `click.style` is that of the mark, if there is one.

    On a terminal the text is wrapped beside its mark; the readers of a pipe need whole lines.
    """
    text = shown(text)
    if mark and sys.stdout is not None and sys.stdout.isatty():
        room = max(20, shutil.get_terminal_size().columns - len(mark))
        text = "\n".join(textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False))
        text = text.replace("\n", "\n" + " " * len(mark))
    styled = _styled(mark or text, sys.stdout, style)
    result([f"{styled}{text if mark else ''}\n"])


def _styled(text: str, stream: TextIO | None, style: dict[str, Any]) -> str:
    return click.style(text, **style) if style and in_color(stream) else text


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
