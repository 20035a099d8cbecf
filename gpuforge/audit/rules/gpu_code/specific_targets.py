"""GF404: device code for single architectures or families only."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.gpu_code.containers import is_specific, own_code
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.runnable import runnable


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find containers that have only `a` and `f` targets: no later GPU runs them, not even by JIT."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is not None and expectation.cubins:
            continue  # GF401 and GF402 compare with the manifest instead
        subjects = []
        for code in own_code(wheel):
            judged, _ = runnable(code.containers)
            found = [c for c in judged if is_specific(c)]
            if found:
                archs = tuple(sorted({e.target for c in found for e in c.entries}))
                detail = (
                    "only {archs}" if len(judged) == 1 else "only {archs} in {count} of {total} containers"
                )
                facts = facts_of(count=len(found), total=len(judged), archs=archs)
                subjects.append(Subject(file=code.file, detail=detail, facts=facts))
        if subjects:
            yield RULE.finding(
                wheel.name,
                files=tuple(subject.file for subject in subjects),
                subjects=subjects,
                what="Kernels are compiled only for single architectures (a) or families (f).",
                why="They run on these GPUs only. PTX for such a target has the same limit.",
                fix="None needed if the kernels use features of these GPUs and other GPUs have kernels of their "
                "own. Otherwise compile for the plain architecture, too.",
            )


RULE = Rule(
    code="GF404",
    severity="info",
    title="device code is for single architectures (a) or families (f) alone",
    check=check,
)
