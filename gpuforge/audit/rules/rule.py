"""What a rule is, and the phrases that several of them use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from gpuforge.audit.graph import Edge, LinkGraph
from gpuforge.audit.model import ElfObject, Finding, Severity

_VARIANT = re.compile(r"cu(da)?[-_]?\d+")


class Rule(Protocol):
    """A module of this package: one rule, one file, one pure function.

    `check` yields one finding for each cause and severity; findings that differ in their files and subjects
    alone are joined afterwards.
    """

    CODE: str
    SEVERITY: Severity  # its highest; a finding may be less
    TITLE: str

    def check(self, graph: LinkGraph) -> Iterator[Finding]:
        """Yield what is wrong in the graph."""
        ...


def variant_family(found: ElfObject) -> str:
    """Return what several objects for different CUDA versions have in common: libx_cuda118.so's is "libx_#.so".

    "" for an object whose name has no such version: it is not chosen from several.
    """
    family = _VARIANT.sub("#", found.name)
    return family if family != found.name else ""


def may_be_loaded(graph: LinkGraph, edge: Edge) -> bool:
    """Say whether a library of the wheel that no path leads to may be in the process already.

    It may when another object brings it along or Python imports it; a program starts with nothing loaded.
    """
    target = edge.provider.object
    if target is None or edge.loader.program:
        return False
    return "python-module" in target.markers or any(other.route for other in graph.users(target))


def names(objects: Iterable[ElfObject]) -> str:
    """List objects by their file names, each once: "libx.so, liby.so"."""
    return ", ".join(dict.fromkeys(o.name for o in objects))
