"""GF110: a library that a user's own build brings, and the wheel has as another copy."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuforge.audit.causes import join
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject

if TYPE_CHECKING:
    from gpuforge.audit.against import Against


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the libraries that are loaded from each wheel with those that `--against` brings."""
    if graph.against is None:
        return
    for wheel in graph.wheels:
        copies = tuple(_own_copies(graph, wheel, graph.against))
        needed = tuple(_of_others(graph, wheel, graph.against))
        if copies or needed:
            yield RULE.finding(
                wheel.name,
                files=tuple(dict.fromkeys([*(s.file for s in copies), *(s.needed_by[0] for s in needed)])),
                subjects=join((*copies, *needed)),
                what=f"Code that users build with {graph.against.label} brings second copies of libraries that "
                "this wheel loads.",
                why="Both copies run in one process, each with its own state.",
                fix="Use only g++ to compile the libraries that users link against, and leave these libraries out of "
                "the wheel: auditwheel repair --exclude NAME",
            )
        if required := tuple(_of_required(graph, wheel, graph.against)):
            yield RULE.finding(
                wheel.name,
                severity="warning",
                subjects=required,
                cause=("required",),
                what=f"Packages that the wheel requires have other versions of libraries that {graph.against.label} "
                "brings.",
                why="Once both are loaded, two copies run in one process, each with its own state.",
                fix="Require packages of the same CUDA release as that of your users.",
            )


RULE = Rule(
    code="GF110",
    severity="error",
    title="a user's own build would bring a second copy of a library into the process",
    check=check,
    of_process=True,
    contradicts="against",
)


def _own_copies(graph: LinkGraph, wheel: WheelFacts, against: Against) -> Iterator[Subject]:
    for found in wheel.objects:
        if not found.links or found.is_program:
            continue
        if others := against.second_copies(found.soname or found.name):
            ways = _ways(graph, found)
            yield Subject(
                file=found.file,
                detail="loaded through {through:3}; {against} brings"
                if ways
                else "NEEDED by nothing in the wheel; {against} brings",
                facts=facts_of(through=ways, against=against.label),
                names=others,
            )
        elif found.has_static_cudart and (others := against.brings("libcudart.so")):
            yield Subject(
                file=found.file,
                detail="a CUDA runtime is linked in; {against} brings",
                facts=facts_of(against=against.label),
                kind="static",
                names=others,
            )


def _of_others(graph: LinkGraph, wheel: WheelFacts, against: Against) -> Iterator[Subject]:
    for edge in graph.of(wheel):
        if edge.provider.source != "wheel" and (others := against.second_copies(edge.needed)):
            target = edge.provider.object
            yield Subject(
                library=edge.needed,
                provider=edge.provider.package or (graph.wheel(target.wheel).project if target else ""),
                detail="{against} brings",
                facts=facts_of(against=against.label),
                names=others,
                needed_by=(edge.loader.file,),
            )


def _of_required(graph: LinkGraph, wheel: WheelFacts, against: Against) -> Iterator[Subject]:
    """Yield libraries of NVIDIA's packages that the wheel always requires but does not NEED."""
    needed = {edge.needed for edge in graph.of(wheel)}
    for known in graph.required_always(wheel.name):
        lacks = {*known.lacks, *known.unseen, *needed}
        for name in sorted(package_tables.sonames_of(known.package) - lacks):
            if others := against.other_versions(name):
                yield Subject(
                    library=name,
                    provider=known.package,
                    detail="{against} brings",
                    facts=facts_of(against=against.label),
                    names=others,
                )


def _ways(graph: LinkGraph, binary: ElfObject) -> tuple[str, ...]:
    """Return the libraries that users link against and that load an object; without any, the roots that load it."""
    above = _above(graph, binary)
    linked = [o.name for o in above if not o.is_program and re.fullmatch(r"lib[^-]+\.so(\.\d+)*", o.name)]
    first = [o.name for o in above if not graph.users(o)]
    return tuple(dict.fromkeys(linked or first))


def _above(graph: LinkGraph, binary: ElfObject) -> list[ElfObject]:
    """Return all objects that need one, directly or through others, the nearest first."""
    queue = deque([binary])
    seen = {(binary.wheel, binary.file): binary}
    while queue:
        for edge in graph.users(queue.popleft()):
            place = edge.loader.wheel, edge.loader.file
            if place not in seen:
                seen[place] = edge.loader
                queue.append(edge.loader)
    return list(seen.values())[1:]
