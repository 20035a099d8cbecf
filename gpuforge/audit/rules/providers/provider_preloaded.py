"""GF205: libraries that only the package's own Python code brings in."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import PACKAGES, Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find edges without a route whose library some Python file of the wheel speaks of loading."""
    for edge in graph.edges:
        if edge.route or edge.preload is None:
            continue
        known = edge.provider.declared
        lacking = edge.provider.source == "package" and known is None and not edge.preload.pathfinder
        provider, where = "", ""
        if edge.provider.source == "wheel":
            where = "in this wheel"
        elif known is None and edge.provider.object is not None:
            provider = edge.provider.object.wheel
        elif known is None:
            where = "declared by no requirement"
        else:
            provider, where = known.package, f"in the extra [{known.extra}]" if known.extra else ""
        yield RULE.finding(
            edge.loader.wheel,
            severity="warning" if lacking else "info",
            files=(edge.loader.file,),
            subjects=(
                Subject(library=edge.needed, provider=provider, detail=where, needed_by=(edge.loader.file,)),
            ),
            what=f"No search path leads to these libraries; {edge.preload.file} loads them first.",
            why="No requirement brings them, so that code finds them only where the user has installed them."
            if lacking
            else "The import works only after that code has run.",
            fix="Add the packages to Requires-Dist, always or in an extra."
            if lacking
            else "None needed if that code runs before these objects are imported.",
        )


RULE = Rule(
    code="GF205",
    severity="warning",
    title="a NEEDED library is found only because Python code loads it before",
    check=check,
    applies_to=PACKAGES,
    contradicts="providers",
    contradicts_from="info",
)
