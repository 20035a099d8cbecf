"""GF206: objects that cannot be loaded on a machine without the driver."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject

_MOST = 4  # imports that are named; the report says how many there are


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find NEEDED entries of the driver's own libraries, and the imports and programs that they break."""
    for wheel in graph.wheels:
        for found in wheel.objects:
            drivers = [e.needed for e in graph.from_object(found) if e.provider.source == "driver"]
            if drivers:
                roots = [s.root for s in graph.load_sets if found in s.objects]
                yield RULE.finding(
                    wheel.name,
                    files=(found.file,),
                    subjects=tuple(
                        Subject(library=name, detail=_breaks(found, roots), needed_by=(found.file,))
                        for name in drivers
                    ),
                    what="These objects NEED libraries of the NVIDIA driver.",
                    why="They do not load on a machine without the driver, so tests, documentation builds and CPU "
                    "fallbacks fail there.",
                    fix="Open libcuda.so.1 with dlopen at the first GPU call, or use the CUDA runtime "
                    "(cudaGetDriverEntryPoint).",
                )


RULE = Rule(
    code="GF206",
    severity="warning",
    title="a library of the driver is NEEDED: nothing loads on a machine without a GPU",
    check=check,
)


def _breaks(found: ElfObject, roots: list[ElfObject]) -> str:
    others = [r.file for r in roots if r is not found]
    if not others:
        return ""
    rest = f" and {len(others) - _MOST} more" if len(others) > _MOST else ""
    return f"without it, {', '.join(others[:_MOST])}{rest} cannot be imported"
