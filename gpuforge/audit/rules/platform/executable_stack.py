"""GF503: objects that ask for an executable stack."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find objects whose PT_GNU_STACK segment has the flag for execution."""
    for found in (o for wheel in graph.wheels for o in wheel.objects if o.links):
        if found.stack is not None and found.stack & 1:
            yield RULE.finding(
                found.wheel,
                files=(found.file,),
                subjects=(Subject(file=found.file),),
                what="Objects ask for an executable stack.",
                why="glibc 2.41 and newer refuse to load such a library into a running process, and hardened "
                "kernels refuse such a program.",
                fix="Link with -z noexecstack, or clear the flag: patchelf --clear-execstack FILE",
            )


RULE = Rule(
    code="GF503",
    severity="error",
    title="an object asks for an executable stack",
    check=check,
)
