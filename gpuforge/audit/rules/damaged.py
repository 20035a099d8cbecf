"""GF705: binaries in the wheel that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.model import Finding, Severity

CODE = "GF705"
SEVERITY: Severity = "warning"
TITLE = "a binary in the wheel is damaged"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Report files that begin like ELF and are not, and fatbin containers that do not add up."""
    for wheel in graph.wheels:
        problems = dict(wheel.damaged)
        for code in wheel.device:
            if broken := sum(container.damaged for container in code.containers):
                problems.setdefault(code.file, f"{broken} fatbin containers that do not add up")
        for file, problem in problems.items():
            yield Finding(
                CODE,
                SEVERITY,
                wheel.name,
                files=(file,),
                subject=(f"{file}: {problem}",),
                message="binaries of the wheel cannot be read: nothing else is said of them",
                remedy="look at what wrote or changed them last (strip, patchelf, an interrupted copy)",
            )
