"""GF304: RPATH instead of RUNPATH."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.route import Route
from gpuforge.audit.rules import search_path
from gpuforge.audit.rules.nvidia import is_nvidia_wheel
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find objects that reach other packages by DT_RPATH, which precedes LD_LIBRARY_PATH and is inherited.

    An RPATH within its own wheel is written by auditwheel, and does no harm.
    """
    inherited = ((w, o) for w in graph.wheels for o in w.objects if o.links and o.rpath and o.runpath is None)
    for found in (o for wheel, o in inherited if not is_nvidia_wheel(wheel)):
        led = [
            edge
            for edge in graph.from_object(found)
            if edge.provider.source in ("package", "sibling")
            and any(edge.route == Route("RPATH", entry) for entry in found.rpath or ())
        ]
        if led:
            entries = tuple(dict.fromkeys(edge.route.entry for edge in led if edge.route))
            yield RULE.finding(
                found.wheel,
                files=(found.file,),
                subjects=(Subject(file=found.file, detail="RPATH", names=entries),),
                what="Objects find the libraries of other packages by RPATH, not RUNPATH.",
                why="Users cannot replace these libraries with LD_LIBRARY_PATH, and libraries loaded through "
                "these objects search the same folders.",
                fix="Link with -Wl,--enable-new-dtags, or turn the RPATH into a RUNPATH, which serves only its own "
                "object: libraries that this one loads need theirs.",
                commands=search_path.commands(graph, found),
            )


RULE = Rule(
    code="GF304",
    severity="info",
    title="an RPATH, not a RUNPATH, leads to the libraries of other packages",
    check=check,
)
