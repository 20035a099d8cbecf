"""GF507: objects without RELRO."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find loadable objects without PT_GNU_RELRO, which linkers write by default."""
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links and not o.relro):
            yield RULE.finding(
                wheel.name,
                files=(found.file,),
                subjects=(Subject(file=found.file),),
                what="Objects have no RELRO segment.",
                why="Their address tables stay writable at run time, which makes attacks easier.",
                fix="Link with -Wl,-z,relro,-z,now.",
            )


RULE = Rule(
    code="GF507",
    severity="info",
    title="an object has no RELRO segment",
    check=check,
)
