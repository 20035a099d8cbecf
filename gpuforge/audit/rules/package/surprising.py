"""GF713: files that are accepted everywhere, but not installed as expected."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding
from gpuforge.audit.form import ARCHIVES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.package.refusal_findings import finding, kinds
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Report each kind, and how installers treat such files."""
    for wheel in graph.wheels:
        yield from (finding(RULE, wheel, row, refusals) for row, refusals in kinds(wheel) if not row.by)


RULE = Rule(
    code="GF713",
    severity="warning",
    title="a file is not installed as it looks in the wheel",
    check=check,
    applies_to=ARCHIVES,
)
