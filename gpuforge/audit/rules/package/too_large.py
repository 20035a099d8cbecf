"""GF714: a wheel that would take all memory or time to judge."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Report wheels whose budget ran out; it is the only finding of such a wheel."""
    for wheel in graph.wheels:
        if wheel.too_large:
            yield RULE.finding(
                wheel.name,
                subjects=(Subject(detail=f"too large to judge: {wheel.too_large}"),),
                what="The wheel is too large to judge, or was made to be.",
                why="Nothing is known of it: neither what it holds nor what it breaks.",
                fix="Do not install it unless you know who made it. If it is sound, report it as a bug of gpuforge.",
            )


RULE = Rule(
    code="GF714",
    severity="error",
    title="the wheel is too large to judge",
    check=check,
    of_process=True,
    of_too_large=True,
)
