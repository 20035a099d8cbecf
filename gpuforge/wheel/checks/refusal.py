"""One reason to refuse a wheel, and the table of these reasons: who refuses, in whose source or documentation."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from gpuforge.datafile import load, rows

_MORE = {"more": "and {count:,} more"}  # of every kind: its members that are not listed


class Refusal(NamedTuple):
    """A kind of `refusals.toml`, the member that it is about, and what differs there."""

    kind: str
    member: str = ""
    facts: Mapping[str, str | int] = MappingProxyType({})
    case: str = ""  # which sentence it has, of a kind with several


class Kind(NamedTuple):
    """A row of `refusals.toml`."""

    by: tuple[Literal["PyPI", "pip", "uv"], ...]  # empty for files that only surprise users
    what: str
    fix: str
    why: str = ""  # what happens if nothing refuses the wheel
    severity: Literal["", "error", "warning", "info"] = ""  # "" where it follows from who refuses
    uv: Literal["", "index", "file"] = ""  # where uv takes it from, if it refuses it from there alone
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
