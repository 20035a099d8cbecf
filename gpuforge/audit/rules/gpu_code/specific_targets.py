"""GF404: device code for single architectures or families alone."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.gpu_code.containers import is_specific, own_code
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.runnable import runnable


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find containers that have nothing but `a` and `f` targets: no later GPU runs them, not even by JIT."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is not None and expectation.cubins:
            continue  # GF401 and GF402 compare with the manifest instead
        details: dict[str, str] = {}
        for code in own_code(wheel):
            judged, _ = runnable(code.containers)
            found = [c for c in judged if is_specific(c)]
            if found:
                archs = sorted({e.target for c in found for e in c.entries})
                count = "" if len(judged) == 1 else f"{len(found)} of {len(judged)} containers have "
                details[code.file] = f"{count}{', '.join(archs)} alone"
        if details:
            yield RULE.finding(
                wheel.name,
                files=tuple(details),
                subjects=tuple(Subject(file=file, detail=text) for file, text in details.items()),
                what="Kernels are compiled only for single architectures (a) or families (f).",
                why="They run on these GPUs and on no others, even where the wheel has their PTX.",
                fix="None needed if the kernels use features of these GPUs and other GPUs have kernels of their "
                "own. Otherwise compile for the plain architecture, too.",
            )


RULE = Rule(
    code="GF404",
    severity="info",
    title="device code is for single architectures (a) or families (f) alone",
    check=check,
)
