"""Writes the details of subjects: fills a rule's template, such as "{left:MiB} MiB in {0}", with values.

A name is one of the facts, or `provider`; a number is an index into `parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

from gpuforge.audit.findings import Subject, Table

_LONGEST = 48  # characters of a `short` text


def text(subject: Subject) -> str:
    """Return a subject's detail in words."""
    names = {"provider": subject.provider, **dict(subject.facts)}
    return _Words().vformat(subject.detail, subject.parts, names)


def filled(subject: Subject) -> Subject:
    """Return a subject with the text of its detail instead of template and facts, to compare it with others."""
    return subject._replace(detail=text(subject), facts=())


def shorten(names: Sequence[str], most: int = 3) -> str:
    """Return the first names and the number of the rest: "a, b, c and 9 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _short(text: str) -> str:
    """Return a text, cut if it is long, in quotes if it has blanks."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f'"{short}"' if " " in short else short


def _drivers(table: Table) -> str:
    """Write the driver that each GPU needs, GPUs with the same driver together."""
    gpus: dict[str | int, list[str]] = {}
    for capability, driver in table:
        gpus.setdefault(driver, []).append(capability)
    return "; ".join(
        f"{', '.join(names)} with driver {driver or 'of that toolkit'} or newer"
        for driver, names in gpus.items()
    )


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "MiB": lambda size: f"{size >> 20}",
    "KiB": lambda size: f"{size >> 10:,}",
    "short": _short,
    # of lists
    "chain": " → ".join,
    "lines": lambda lines: repr(" → ".join(lines)),  # Requires-Dist lines, each brought by the one before it
    # of tables
    "sizes": lambda table: ", ".join(f"{name} {size / 2**20:,.0f} MiB" for name, size in table),
    "images": lambda table: ", ".join(f"{name} ({n} image{'s' if n > 1 else ''})" for name, n in table),
    "GPUs": lambda table: ", ".join(f"{capability} ({name})" for capability, name in table),
    "drivers": _drivers,
}


class _Words(Formatter):
    """Fills in values in one of Python's formats or of `_FORMATS`; the format of a list may limit its elements."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in _FORMATS:
            return _FORMATS[format_spec](value)
        if isinstance(value, tuple):
            return shorten(value, int(format_spec or len(value)))
        return format(value, format_spec)
