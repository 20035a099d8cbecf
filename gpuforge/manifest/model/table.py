"""The base of every table of the manifest."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A table of the manifest: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def listed(before: str, items: Iterable[str], after: str = "") -> str:
    """Return a description of a field that lists what a table elsewhere has, in lines as long as docstrings'."""
    text = f"{before} {'; '.join(items)}. {after}".strip()
    return textwrap.fill(text, 116, break_long_words=False, break_on_hyphens=False)
