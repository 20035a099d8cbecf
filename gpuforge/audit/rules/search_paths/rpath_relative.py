"""GF301: search paths that depend on the working directory."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import layout
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules import search_path
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find entries that begin neither with `/` nor with `$ORIGIN`.

    An empty entry is the working directory itself (glibc, elf/dl-load.c, fillin_rpath).
    """
    for found in (o for wheel in graph.wheels for o in wheel.objects if o.links):
        for way in layout.written(found):
            if not layout.expanded(way.entry, "/").startswith("/"):
                yield RULE.finding(
                    found.wheel,
                    files=(found.file,),
                    subjects=(Subject(file=found.file, kind=way.kind, about=(way.entry,)),),
                    cause=(way.kind, way.entry),
                    what=f"{way.kind} has the entry {way.entry!r}, which "
                    + (
                        "is relative to the working directory."
                        if way.entry
                        else "means the working directory."
                    ),
                    why="Libraries are loaded from the folder in which the program is started.",
                    fix="Make the entry relative to $ORIGIN, or remove it.",
                    commands=search_path.commands(graph, found),
                )


RULE = Rule(
    code="GF301",
    severity="error",
    title="an RPATH or RUNPATH entry is relative to the working directory",
    check=check,
)
