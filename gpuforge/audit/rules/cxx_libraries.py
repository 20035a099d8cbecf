"""GF107: two C++ standard libraries in one process."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.model import Finding, Severity
from gpuforge.audit.processes import FIRST_WINS, images, one_of_them, processes

CODE = "GF107"
SEVERITY: Severity = "warning"
TITLE = "two C++ standard libraries would be loaded into one process"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Count the images of libstdc++ that one import loads; libc++ beside it shares no symbol with it."""
    said: list[set[str]] = []
    for process in processes(graph):
        found = images(graph, process.objects, lambda name: name.startswith("libstdc++.so"))
        names = {i.name for i in found}
        if process.scope == "environment" or len(names) < 2 or any(names <= known for known in said):
            continue
        said.append(names)
        one = one_of_them(found)
        yield Finding(
            CODE,
            "info" if one else SEVERITY,
            process.wheel,
            files=tuple(dict.fromkeys(i.loader for i in found if i.wheel == process.wheel)),
            subject=tuple(f"{i.name}, loaded by {i.loader}" for i in found),
            message=FIRST_WINS
            if one
            else "several images of libstdc++ come into one process: exceptions, locales and streams that cross "
            "from one to the other fail",
            remedy="take libstdc++ from the system, as the manylinux policies promise it, for all objects "
            "(auditwheel repair --exclude libstdc++.so.6)",
        )
