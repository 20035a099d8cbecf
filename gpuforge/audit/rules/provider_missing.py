"""GF201: NEEDED libraries that nobody provides."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import declared
from gpuforge.audit.graph import Edge, LinkGraph
from gpuforge.audit.model import NEEDED_BY, Finding, Severity
from gpuforge.toolkits import libraries

CODE = "GF201"
SEVERITY: Severity = "error"
TITLE = "a NEEDED library has no provider"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find edges that lead to no wheel, no declared package and nothing of the system."""
    for edge in graph.edges:
        if edge.route or edge.preload:
            continue
        if edge.provider.source == "package" and edge.provider.declared is None:
            if not declared.other_majors(edge.needed) & graph.declared[edge.loader.wheel].keys():
                yield _missing(edge)
        elif edge.provider.source == "nobody":
            yield _unknown(edge)


def _missing(edge: Edge) -> Finding:
    return Finding(
        CODE,
        SEVERITY,
        edge.loader.wheel,
        files=(edge.loader.file,),
        subject=(f"{edge.needed} (of {edge.provider.package}){NEEDED_BY}{edge.loader.file}",),
        message="libraries have no provider that is declared or reachable: they are not in the wheel, no Requires-Dist "
        "line brings them, and no RPATH or RUNPATH leads to where pip would put them",
        remedy="declare the packages in Requires-Dist, and give the objects a RUNPATH to their folders "
        '(gpuforge build with linkage = "pip" does both)',
    )


def _unknown(edge: Edge) -> Finding:
    runtime = libraries.compiler_runtime(edge.needed)
    what = f"{edge.needed} (a compiler's runtime)" if runtime else edge.needed
    return Finding(
        CODE,
        "warning",
        edge.loader.wheel,
        files=(edge.loader.file,),
        subject=(f"{what}{NEEDED_BY}{edge.loader.file}",),
        message="libraries must be there on the user's machine by themselves: they are neither in the wheel nor in the "
        "manylinux policies, and no known package brings them",
        remedy="graft them with auditwheel repair, link them statically, or say in the documentation what to install",
    )
