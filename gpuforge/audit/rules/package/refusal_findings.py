"""Makes findings of the kinds in `refusals.toml`: one for each kind in a wheel, with the programs that refuse it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuforge.audit.findings import Finding, Severity, Subject, facts_of
from gpuforge.audit.model import WheelFacts
from gpuforge.wheel.checks.refusal import Kind, Refusal, kind

if TYPE_CHECKING:
    from gpuforge.audit.rules.rule import Rule

_NOT_LINUX = {"case", "path on Windows"}  # surprises only users of other systems


def kinds(wheel: WheelFacts) -> Iterator[tuple[Kind, list[Refusal]]]:
    """Yield each kind with its refusals."""
    found: dict[str, list[Refusal]] = {}
    for refusal in wheel.refusals:
        found.setdefault(refusal.kind, []).append(refusal)
    for name, refusals in found.items():
        if name not in _NOT_LINUX or not all("linux" in platform for platform in wheel.platforms):
            yield kind(name), refusals


def finding(rule: Rule, wheel: WheelFacts, row: Kind, refusals: list[Refusal]) -> Finding:
    """Return the finding of a kind."""
    return rule.finding(
        wheel.name,
        severity=_severity(row),
        files=dict.fromkeys(r.member for r in refusals if r.member),
        subjects=[
            Subject(file=r.member, item=r.kind, detail=row.sentence(r), facts=facts_of(**r.facts))
            for r in refusals
        ],
        cause=(refusals[0].kind,),
        what=row.what,
        why=" ".join(text for text in (_refusers(row), row.why) if text),
        fix=row.fix,
    )


def _severity(row: Kind) -> Severity:
    """Return "error" if an installer refuses; PyPI is not the only index."""
    return row.severity or ("warning" if row.by == ("PyPI",) else "error")


def _refusers(row: Kind) -> str:
    """Return a sentence about the indexes and installers that refuse the wheel."""
    installers = [name for name in row.by if name != "PyPI"]
    installing = (
        f"{' and '.join(installers)} {'refuse' if len(installers) > 1 else 'refuses'} to install the wheel"
    )
    installing += {"": "", "index": " from an index", "file": " from a file"}[row.uv]
    parts = ["PyPI refuses the upload"] if "PyPI" in row.by else []
    return f"{', and '.join([*parts, installing] if installers else parts)}." if row.by else ""
