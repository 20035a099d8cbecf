"""The details of subjects in words: a rule's template, such as "{left:MiB} MiB in {0}", filled with its values.

A name is one of the facts, or `provider`; a number is one of `about`, in its order.
"""

from __future__ import annotations

from string import Formatter
from typing import Any

from gpuforge.audit.findings import Subject
from gpuforge.audit.rules.wording import requirement, shorten

_LONGEST = 48  # characters of a `short` text


def text(subject: Subject) -> str:
    """Return a subject's detail in words."""
    if not (subject.facts or subject.about):
        return subject.detail
    return _Words().vformat(
        subject.detail, subject.about, {"provider": subject.provider, **dict(subject.facts)}
    )


def filled(subject: Subject) -> Subject:
    """Return a subject with the words of its detail instead of a template and facts, to compare it with others."""
    return subject._replace(detail=text(subject), facts=())


class _Words(Formatter):
    """Formats: `MiB` and `KiB` for sizes; `short` for a text that may be long, and is in quotes if it has blanks.

    For lists a number of names to show, `chain` or, of Requires-Dist lines, `lines`.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        match format_spec:
            case "MiB":
                return f"{value >> 20}"
            case "KiB":
                return f"{value >> 10:,}"
            case "chain":
                return " → ".join(value)
            case "short":
                short = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
                return f'"{short}"' if " " in short else short
            case "lines":
                return requirement(value)
        if isinstance(value, tuple):
            return shorten(value, int(format_spec or len(value)))
        return format(value, format_spec)
