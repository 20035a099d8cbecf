"""GF405: PTX without a kernel beside machine code with kernels."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.gpu_code.containers import own_code
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import FatbinContainer
from gpuforge.binary.runnable import EMPTY_PTX, runnable


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find containers whose PTX has only its version and target, while their cubins have code."""
    for wheel in graph.wheels:
        for code in own_code(wheel):
            judged, inputs = runnable(code.containers)
            found = [c for c in (*judged, *inputs) if _empty(c)]
            if found:
                subject = Subject(
                    file=code.file,
                    detail="{count} of {total} containers",
                    facts=facts_of(count=len(found), total=len(judged) + len(inputs)),
                )
                yield RULE.finding(
                    wheel.name,
                    files=(code.file,),
                    subjects=(subject,),
                    what="Fatbin containers have machine code with kernels, and PTX without any.",
                    why="The driver compiles that PTX for a newer GPU and finds no kernel.",
                    fix="Find what removed the code, such as an #if on __CUDA_ARCH__ that excludes the PTX target.",
                )


RULE = Rule(
    code="GF405",
    severity="warning",
    title="the embedded PTX is empty",
    check=check,
)


def _empty(container: FatbinContainer) -> bool:
    if container.empty is None:  # the machine code may be empty, too
        return False
    ptx = [e for e in container.entries if e.kind == "ptx"]
    return bool(ptx) and all(e.size < EMPTY_PTX for e in ptx)
