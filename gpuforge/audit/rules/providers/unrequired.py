"""Wheels without any Requires-Dist line whose objects need libraries of other packages: one cause of several facts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpuforge.audit.link import declared, package_tables
from gpuforge.audit.link.declared import Declared
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph


@lru_cache(maxsize=1)  # three rules ask of one graph
def without_requirements(graph: LinkGraph) -> frozenset[str]:
    """Return the wheels that require nothing, and whose objects need libraries of packages: GF201 reports them all."""
    bare = {wheel.name for wheel in graph.wheels if not wheel.requires}
    return frozenset(
        e.loader.wheel for e in graph.edges if e.loader.wheel in bare and e.reason == "not required"
    )


def implied_other_major(graph: LinkGraph, edge: Edge) -> Declared | None:
    """Return what has the library for another CUDA major, and would come with a package that the object needs, too."""
    brought = _implied(graph, edge)
    others = sorted(package_tables.other_majors(edge.needed) & brought.keys())
    return brought[others[0]] if others else None


def _implied(graph: LinkGraph, edge: Edge) -> Mapping[str, Declared]:
    """Return what a package would bring that is not required, and whose libraries the object needs: torch."""
    packages = {e.provider.package for e in graph.from_object(edge.loader) if e.provider.source == "package"}
    found: dict[str, Declared] = {}
    given = declared.by_project(graph.wheels)
    for package in sorted(packages & package_tables.loading()):
        found |= declared.brought_by(package, given)
    return found
