"""The details of subjects in words: a rule's template, such as "{left:MiB} MiB in {0}", filled with its values.

A name is one of the facts, and a number one of `about`, in its order.
"""

from __future__ import annotations

from string import Formatter
from typing import Any

from gpuforge.audit.findings import Subject


def text(subject: Subject) -> str:
    """Return a subject's detail in words."""
    if not subject.facts:
        return subject.detail
    return _Words().vformat(subject.detail, subject.about, dict(subject.facts))


def filled(subject: Subject) -> Subject:
    """Return a subject with the words of its detail instead of a template and facts, to compare it with others."""
    return subject._replace(detail=text(subject), facts=())


class _Words(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        return f"{value >> 20}" if format_spec == "MiB" else format(value, format_spec)
