"""GF602: patterns of a host-only object that match no file."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.intent import HostOnly
from gpuforge.audit.model import Finding, Severity
from gpuforge.audit.rules.host_only import files_of

CODE = "GF602"
SEVERITY: Severity = "error"
TITLE = "a host-only object's pattern matches nothing in the wheel"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find patterns that prove nothing because no file has such a name."""
    if graph.intent is None:
        return
    for wheel in graph.wheels:
        for promised in graph.intent.host_only:
            for pattern in promised.patterns:
                if not files_of(HostOnly(promised.name, (pattern,)), wheel):
                    yield Finding(
                        CODE,
                        SEVERITY,
                        wheel.name,
                        files=(),
                        subject=(f"{pattern!r} of the object {promised.name!r}",),
                        message="patterns of host-only objects match no file of the wheel: nothing is proved by them",
                        remedy="write the pattern as the files are called in the wheel; ** crosses folders, * does not",
                    )
