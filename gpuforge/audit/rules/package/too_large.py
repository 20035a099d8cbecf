"""GF714: a wheel that takes too much memory or time to judge."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Report wheels whose budget ran out; it is the only finding of such a wheel."""
    for wheel in graph.wheels:
        if wheel.too_large:
            yield RULE.finding(
                wheel.name,
                subjects=(
                    Subject(detail="too large to judge: {reason}", facts=facts_of(reason=wheel.too_large)),
                ),
                what="The wheel needs more time or memory than the audit spends on a file of its size.",
                why="The audit stopped, and nothing is proved about the wheel. Files that are made to do this may be "
                "harmful.",
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
