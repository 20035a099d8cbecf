"""GF602: patterns of a host-only object that match no binary."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, PatternOf, Subject, facts_of
from gpuforge.audit.host_files import files_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule

# by the number of files: none, one, several
_DETAILS = ("no file", "{files}, with no object in it", "only {files:3}, with no object in them")


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find patterns that match no file, or no binary."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        for promised in expectation.host_only if expectation else ():
            for pattern in promised.patterns:
                files = sorted(files_of((pattern,), wheel))
                if not any(_is_binary(graph, wheel, file) for file in files):
                    yield RULE.finding(
                        wheel.name,
                        subjects=(
                            Subject(
                                item=PatternOf(pattern, promised.name),
                                detail=_DETAILS[min(len(files), 2)],
                                facts=facts_of(files=tuple(files)) if files else (),
                            ),
                        ),
                        what="Patterns of host-only objects match no binary in the wheel.",
                        why="Nothing is checked for these patterns.",
                        fix="Match the paths of the files in the wheel: ** crosses folders, * does not.",
                    )


RULE = Rule(
    code="GF602",
    severity="error",
    title="a host-only object's pattern matches no binary in the wheel",
    check=check,
    contradicts="host-only",
)


def _is_binary(graph: LinkGraph, wheel: WheelFacts, file: str) -> bool:
    """Return whether a file has objects, or is a binary that cannot be read, which GF604 reports."""
    evidence = graph.evidence.get((wheel.name, file))
    return evidence is not None and any(part.counted or part.unproved for part in evidence.parts)
