"""Finds wheels without Requires-Dist lines whose objects need libraries of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpuforge.audit.link import declared, package_tables
from gpuforge.audit.link.declared import Declared
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph


@lru_cache(maxsize=1)  # three rules call it with one graph
def without_requirements(graph: LinkGraph) -> frozenset[str]:
    """Return the wheels that require nothing but have objects that need libraries of packages, for GF201 to report."""
    bare = {wheel.name for wheel in graph.wheels if not wheel.requires}
    return frozenset(
        e.loader.wheel for e in graph.edges if e.loader.wheel in bare and e.reason == "not required"
    )


def implied_other_major(graph: LinkGraph, edge: Edge) -> Declared | None:
    """Return the package that has the library for another CUDA major, and would come with another needed package."""
    brought = _implied(graph, edge)
    others = sorted(package_tables.other_majors(edge.needed) & brought.keys())
    return brought[others[0]] if others else None


def _implied(graph: LinkGraph, edge: Edge) -> Mapping[str, Declared]:
    """Return the packages that would come with packages whose libraries the object needs, such as torch."""
    packages = {e.provider.package for e in graph.from_object(edge.loader) if e.provider.source == "package"}
    found: dict[str, Declared] = {}
    given = declared.by_project(graph.wheels)
    for package in sorted(packages & package_tables.loading()):
        found |= declared.brought_by(package, given)
    return found
