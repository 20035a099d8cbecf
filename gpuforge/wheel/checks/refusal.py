"""One reason to refuse a wheel, and the table of these reasons: who refuses, in whose source or documentation."""

from typing import Literal, NamedTuple

from gpuforge.datafile import load, rows


class Refusal(NamedTuple):
    """A kind of `refusals.toml`, the member that it is about, and what differs there."""

    kind: str
    member: str = ""
    detail: str = ""


class Kind(NamedTuple):
    """A row of `refusals.toml`."""

    by: tuple[Literal["PyPI", "pip", "uv"], ...]  # nobody for what only surprises users
    what: str
    fix: str
    why: str = ""  # what happens where nobody refuses
    severity: Literal["", "error", "warning", "info"] = ""  # "" where it follows from who refuses
    uv: Literal["", "index", "file"] = ""  # where uv takes it from, if it refuses it from there alone
    unpack: str = ""  # why gpuforge does not unpack such an archive


def kind(name: str) -> Kind:
    """Return the row of a kind."""
    return rows(Kind, [load(__file__, "refusals.toml")[name]])[0]
