"""GF712: files or metadata that a package index or an installer refuses."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding
from gpuforge.audit.form import ARCHIVES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.package.refusal_findings import finding, kinds
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Report each kind of refusal, and which indexes and installers refuse."""
    for wheel in graph.wheels:
        yield from (finding(RULE, wheel, row, refusals) for row, refusals in kinds(wheel) if row.by)


RULE = Rule(
    code="GF712",
    severity="error",
    title="a package index or an installer refuses the wheel",
    check=check,
    applies_to=ARCHIVES,
)
