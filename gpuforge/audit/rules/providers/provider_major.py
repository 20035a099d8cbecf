"""GF204: a library that is declared, but for another CUDA major."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.providers.unrequired import implied_other_major, without_requirements
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.variants import variant_family
from gpuforge.cuda import sonames


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find edges to a CUDA library if pip would install the one of another major."""
    for edge in graph.edges:
        if edge.provider.source != "package" or edge.provider.declared or edge.preload:
            continue
        if edge.loader.wheel in without_requirements(graph):
            continue  # reported as GF201
        other = edge.provider.other_major
        if all(known.extra for known in graph.declared[edge.loader.wheel].values()):
            both = filter(None, (other, implied_other_major(graph, edge)))
            other = min(both, key=lambda known: known.package, default=None)
        if other is None or _chosen_from(graph, edge):
            continue
        yield RULE.finding(
            edge.loader.wheel,
            files=(edge.loader.file,),
            subjects=(
                Subject(
                    library=edge.needed,
                    detail="{requirement!r} brings {package}",
                    facts=facts_of(requirement=other.line, package=other.package),
                    needed_by=(edge.loader.file,),
                ),
            ),
            cause=(other is edge.provider.other_major,),
            what="The requirements bring libraries of another CUDA major than the one that is NEEDED."
            if other is edge.provider.other_major
            else "Objects NEED libraries of a package that the wheel does not require, and that package brings "
            "another CUDA major.",
            why="The dynamic linker does not find the NEEDED libraries, and the import fails.",
            fix="Require the packages of the CUDA major that the wheel was built with, and limit the "
            "versions of packages that bring another major.",
        )


RULE = Rule(
    code="GF204",
    severity="error",
    title="the requirements bring another CUDA major than the one that is NEEDED",
    check=check,
    applies_to=PACKAGES,
    contradicts="providers",
)


def _chosen_from(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether an object is one of several for different CUDA versions, and another one matches."""
    family, stem = variant_family(edge.loader), sonames.stem(edge.needed)
    return bool(family) and any(
        other.provider.declared is not None
        and sonames.stem(other.needed) == stem
        and variant_family(other.loader) == family
        for other in graph.edges
        if other.loader.wheel == edge.loader.wheel
    )
