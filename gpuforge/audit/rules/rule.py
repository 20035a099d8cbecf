"""What a rule is, and the phrases that several of them use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.model import Finding, Severity


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
