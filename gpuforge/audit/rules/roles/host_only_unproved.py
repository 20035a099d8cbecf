"""GF604: host-only files that prove nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpuforge.audit.evidence import Evidence, Gap, GapKind
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.host_files import host_only_files
from gpuforge.audit.link.closure import closure
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule

if TYPE_CHECKING:
    from gpuforge.expectation import HostOnly


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find files that could not be read completely, or that do not name their compiler."""
    for wheel, promised, file in host_only_files(graph):
        if subjects := tuple(_subjects(graph, wheel, promised, file)):
            yield RULE.finding(
                wheel.name,
                files=(file,),
                subjects=subjects,
                cause=(promised.name,),
                what=f"Files of the host-only object {promised.name!r} cannot be proved to be host-only.",
                why="They may contain GPU code that the audit does not see.",
                fix="Build them as machine code for a CPU: without -flto or with -ffat-lto-objects, and "
                "with the name of the compiler in .comment. [audit] ignore accepts a file that you know.",
            )


RULE = Rule(
    code="GF604",
    severity="error",
    title="a host-only file cannot be proved to be host-only",
    check=check,
    contradicts="host-only",
)


REASONS: Mapping[GapKind, str] = {
    "not read": "{fact}",
    "damaged": "damaged: {fact}",
    "members": "it has more than {fact:,} members",
    "depth": "it is the {fact}th archive in another",
    "LLVM bitcode": "it is LLVM bitcode, which is compiled later",
    "GCC bytecode": "it has only bytecode of GCC (-flto), which is compiled later",
    "macOS": "it is a binary of macOS, which is not read",
    "AIX": "it is an archive of AIX, which is not read",
    "Windows": "it is a binary of Windows, which is not read",
    "machine": "its code is for machine {fact}, and wheels are not made for that CPU",
    "type": "it is neither an object nor a program nor a library, but an ELF file of type {fact}",
    "sections": "it is a relocatable object without sections",
    "compiler": "neither .comment nor debug info names its compiler, which may be one for GPUs",
}


def _subjects(graph: LinkGraph, wheel: WheelFacts, promised: HostOnly, file: str) -> Iterator[Subject]:
    evidence = graph.evidence.get((wheel.name, file))
    if evidence is None:
        yield Subject(file=file, detail="it was not read")
        return
    yield from _of_evidence(evidence, ())
    needed = {name for part in evidence.parts for name in part.needs}
    for loaded in closure(graph, wheel, file, needed, promised.needs):
        evidence_of_library = graph.evidence.get((wheel.name, loaded.object.file))
        if evidence_of_library is not None:
            yield from _of_evidence(evidence_of_library, (file,))
            needed.update(loaded.object.needed)
    for damaged, problem in wheel.damaged.items():  # the graph does not have these
        if damaged.rpartition("/")[2] in needed:
            yield Subject(
                file=damaged, detail="{problem}", facts=facts_of(problem=problem), loaded_by=(file,)
            )


def _of_evidence(evidence: Evidence, loaded_by: tuple[str, ...]) -> Iterator[Subject]:
    """Yield each reason once, with the members of an archive that it applies to."""
    members: dict[Gap, list[str]] = {}
    for part in evidence.parts:
        if part.unproved:
            members.setdefault(part.unproved, []).append(part.name)
    for gap, names in members.items():
        named = tuple(name for name in names if name)
        facts = facts_of(count=len(named), total=len(evidence.parts), members=named) if named else ()
        yield Subject(
            file=evidence.file,
            detail=("{count:,} of {total:,} members ({members:3}): " if named else "") + REASONS[gap.kind],
            facts=(*facts, *(facts_of(fact=gap.fact) if gap.fact else ())),
            loaded_by=loaded_by,
        )
