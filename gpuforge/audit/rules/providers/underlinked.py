"""GF212: symbols of the HPC SDK's runtimes that nothing NEEDED defines."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries

_GROUP = "nvhpc"  # of symbols that the audit looks for


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find strong undefined `__pgi_*` and `__nv*` symbols without a definition in the libraries that the object loads.

    nvc++ relies on the main program to load its runtimes in the right order. Weak symbols are optional.
    """
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links and o.undefined(_GROUP)):
            loaded = _loaded(graph, found)
            if loaded is None:
                continue
            missing = found.undefined(_GROUP) - {symbol for o in loaded for symbol in o.defined(_GROUP)}
            if missing:
                yield _finding(graph, found, missing)


RULE = Rule(
    code="GF212",
    severity="warning",
    title="a library uses symbols of the HPC SDK's runtimes, and NEEDs no library that defines them",
    check=check,
)


def _loaded(graph: LinkGraph, binary: ElfObject) -> list[ElfObject] | None:
    """Return the object and all libraries that it loads; None if an unknown runtime among them was not given."""
    order = [binary]
    for holder in order:
        for edge in graph.from_object(holder):
            target = edge.provider.object
            if target is None and libraries.is_of_one_release(edge.needed):
                return None
            if target is not None and target not in order:
                order.append(target)
    return order


def _finding(graph: LinkGraph, binary: ElfObject, missing: frozenset[str]) -> Finding:
    wheel = graph.wheel(binary.wheel)
    definers = tuple(dict.fromkeys(o.name for o in wheel.objects if o.defined(_GROUP) & missing))
    detail = "{definers} defines" if len(definers) == 1 else "{definers} define"
    return RULE.finding(
        binary.wheel,
        files=(binary.file,),
        subjects=(
            Subject(
                file=binary.file,
                detail=detail if definers else "nothing in the wheel defines",
                facts=facts_of(definers=definers),
                names=tuple(sorted(missing)),
            ),
        ),
        what="Libraries use symbols of the HPC SDK's runtimes, and NEED no library that defines them.",
        why="They load only into a process that has loaded the right runtimes before.",
        fix="Link with nvc++, which adds the runtimes, or compile with g++. -Wl,-z,defs lists the "
        "missing symbols.",
    )
