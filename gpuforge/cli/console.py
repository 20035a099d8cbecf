"""The console for results, and counts as words."""

from __future__ import annotations

import sys

from rich.console import Console


def count(number: int, what: str, plural: str = "") -> str:
    """Write a number with its noun: `1 cell`, `2 cells`, `2 entries`."""
    return f"{number} {what}" if number == 1 else f"{number} {plural or f'{what}s'}"


def results_console() -> Console:
    """Return a console that wraps lines on a terminal, but not in a pipe, whose readers need whole lines."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 10_000)
