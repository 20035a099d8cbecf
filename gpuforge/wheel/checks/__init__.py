"""Checks for reasons to refuse a wheel: each reason, and the table of them, with the refusing programs and sources."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from gpuforge.datafile import load, rows

_MORE = {"more": "and {count:,} more"}  # for every kind: its members that are not listed


class Refusal(NamedTuple):
    """A kind of `refusals.toml`, its member, and the facts."""

    kind: str
    member: str = ""
    facts: Mapping[str, str | int] = MappingProxyType({})
    case: str = ""  # the case of its sentence, for a kind with several


class Kind(NamedTuple):
    """A row of `refusals.toml`."""

    by: tuple[Literal["PyPI", "pip", "uv"], ...]  # empty for files that only surprise users
    what: str
    fix: str
    why: str = ""  # what happens if nothing refuses the wheel
    severity: Literal["", "error", "warning", "info"] = ""  # "" if it follows from `by`
    uv: Literal["", "index", "file"] = ""  # the only source from which uv refuses it; "" for every source
    unpack: str = ""  # why gpuforge does not unpack such an archive
    detail: str = ""  # the sentence about its facts, a template
    cases: Mapping[str, str] = MappingProxyType({})  # other sentences, by the refusal's case

    def sentence(self, refusal: Refusal) -> str:
        """Return the template of the sentence about a refusal's facts; "" for one without facts."""
        if refusal.case:
            return {**_MORE, **self.cases}[refusal.case]
        return self.detail if refusal.facts else ""


def kind(name: str) -> Kind:
    """Return the row of a kind."""
    return rows(Kind, [load(__file__, "refusals.toml")[name]])[0]
