"""The details of subjects in words: a rule's template, such as "{left:MiB} of {whole:MiB} MiB", filled with its facts.

After the colon is one of Python's formats, one of `_FORMATS`, or of a list the number of names that are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, TypeGuard

from gpuforge.audit.findings import Fact, Facts, Subject
from gpuforge.audit.rules.wording import shorten


def text(subject: Subject) -> str:
    """Return a subject's detail in words."""
    return _Words().vformat(subject.detail, (), dict(subject.facts)) if subject.facts else subject.detail


def filled(subject: Subject) -> Subject:
    """Return a subject with the words of its detail instead of a template and facts."""
    return subject._replace(detail=text(subject), facts=())


def data(facts: Facts) -> dict[str, Any]:
    """Return facts for JSON; a table is an object."""
    return {name: dict(value) if _is_table(value) else value for name, value in facts}


def _is_table(value: Fact) -> TypeGuard[tuple[tuple[str, str | int], ...]]:
    return isinstance(value, tuple) and any(isinstance(row, tuple) for row in value)


def _images(table: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({count} image{'s' if count > 1 else ''})" for name, count in table)


def _drivers(table: Sequence[tuple[str, str]]) -> str:
    """Write which driver the GPUs of each compute capability need, those with the same driver together."""
    by_driver: dict[str, list[str]] = {}
    for capability, driver in table:
        by_driver.setdefault(driver, []).append(capability)
    return "; ".join(
        f"{', '.join(names)} with driver {driver or 'of that toolkit'} or newer"
        for driver, names in by_driver.items()
    )


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "KiB": lambda size: f"{size >> 10:,}",
    "MiB": lambda size: f"{size >> 20}",
    "MB": lambda table: ", ".join(f"{name} {size / 1e6:,.0f} MB" for name, size in table),
    "images": _images,
    "GPUs": lambda table: ", ".join(f"{capability} ({name})" for capability, name in table),
    "drivers": _drivers,
    "chain": " → ".join,
    "requirement": lambda lines: repr(" → ".join(lines)),  # each required by the one before it
}


class _Words(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in _FORMATS:
            return _FORMATS[format_spec](value)
        if isinstance(value, tuple):
            return shorten(value, int(format_spec or len(value)))
        return format(value, format_spec)
