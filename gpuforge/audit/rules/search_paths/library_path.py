"""GF307: libraries in LD_LIBRARY_PATH that are loaded instead of those of an environment."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find NEEDED libraries that a RUNPATH leads to and that LD_LIBRARY_PATH has, too.

    The dynamic linker searches RPATH, then LD_LIBRARY_PATH, then RUNPATH (ld.so(8)).
    """
    for edge in graph.edges if graph.overriding else ():
        folder = graph.overriding.get(edge.needed)
        if folder and edge.route and edge.route.kind == "RUNPATH":
            subject = Subject(
                library=edge.needed,
                provider=edge.provider.package,
                detail="{folder} has it, too",
                facts=facts_of(folder=folder),
                needed_by=(edge.loader.file,),
            )
            yield RULE.finding(
                edge.loader.wheel,
                files=(edge.loader.file,),
                subjects=(subject,),
                what="LD_LIBRARY_PATH has libraries that RUNPATHs lead to.",
                why="Those in LD_LIBRARY_PATH are loaded, whatever their release: missing symbols, and errors of "
                "CUDA's libraries that do not fit together.",
                fix="Unset LD_LIBRARY_PATH for this environment, or remove the folder from it.",
            )


RULE = Rule(
    code="GF307",
    severity="warning",
    title="LD_LIBRARY_PATH has a library that is loaded instead of the environment's",
    check=check,
    of_process=True,
)
