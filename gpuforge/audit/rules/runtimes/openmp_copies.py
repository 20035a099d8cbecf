"""GF105: several OpenMP runtimes in one process."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.loaded import (
    FIRST_WINS,
    SEVERAL_PLACES,
    LibraryOrigin,
    LoadedLibrary,
    loaded_libraries,
    loads_only_one,
)
from gpuforge.audit.rules.runtimes.processes import Process, processes
from gpuforge.cuda import libraries


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Count the copies of OpenMP runtimes in every process."""
    reported: list[set[LibraryOrigin]] = []
    for process in processes(graph):
        found = loaded_libraries(graph, process.objects, libraries.is_openmp)
        names = {i.origin for i in found}
        if len(names) > 1 and not any(names <= known for known in reported):
            reported.append(names)
            yield _finding(process, found)


RULE = Rule(
    code="GF105",
    severity="warning",
    title="several OpenMP runtimes would be loaded into one process",
    check=check,
    of_process=True,
)


def _finding(process: Process, found: list[LoadedLibrary]) -> Finding:
    families = {libraries.compiler_runtime(i.soname) for i in found}
    mixed = len(families) > 1
    one = loads_only_one(found)
    return RULE.finding(
        process.blamed([i.wheel for i in found]),
        across=process.across,
        severity="info" if one or (process.scope == "environment" and not mixed) else "warning",
        files=(process.root,) if process.root else (),
        subjects=tuple(i.subject() for i in found),
        cause=(one, process.scope == "import", mixed),
        what=SEVERAL_PLACES
        if one
        else "One import loads several OpenMP runtimes."
        if process.scope == "import"
        else "Modules that are imported together load several OpenMP runtimes.",
        why=FIRST_WINS
        if one
        else "Each starts its own threads and oversubscribes the CPU"
        + (", and runtimes of different compilers can hang or abort each other." if mixed else "."),
        fix="Graft one OpenMP runtime for all objects, or require a package that brings it.",
    )
