"""GF408: GPUs that run the device code only by JIT, and the driver that this needs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.reach import reach
from gpuforge.audit.rules.gpu_code.containers import own_code
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find the generations that have to compile PTX, and the oldest driver that can."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is not None and expectation.cubins:
            continue  # GF401 and GF402 compare with the manifest instead
        processor = wheel.machine
        for code in own_code(wheel):
            table = reach(code, processor)
            jit = [r for r in table if r.jit]
            native = [r for r in table if r.native]
            if jit and native and not code.file.endswith(".ptx"):
                subject = Subject(
                    file=code.file,
                    detail="{drivers:drivers}",
                    facts=facts_of(drivers=tuple((r.generation.capability, r.driver) for r in jit)),
                )
                yield RULE.finding(
                    wheel.name,
                    files=(code.file,),
                    subjects=(subject,),
                    what="Some GPUs run these kernels only by JIT compilation of PTX.",
                    why="The first launch is slow there, and the driver must be as new as the toolkit that wrote the "
                    "PTX.",
                    fix="None needed if that is acceptable. Otherwise add machine code for these architectures.",
                )


RULE = Rule(
    code="GF408",
    severity="info",
    title="some GPUs run the device code by JIT alone, with a newer driver",
    check=check,
)
