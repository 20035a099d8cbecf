"""GF102: two copies of the CUDA runtime in one process."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding
from gpuforge.audit.grafted_origin import origin
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.cudart import loaded_cudarts
from gpuforge.audit.rules.runtimes.loaded import (
    FIRST_WINS,
    SEVERAL_PLACES,
    LibraryOrigin,
    LoadedLibrary,
    loads_only_one,
)
from gpuforge.audit.rules.runtimes.processes import Process, processes


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Count the copies of each major of libcudart in every process; two majors are reported as GF104."""
    reported: list[set[LibraryOrigin]] = []
    for process in processes(graph):
        found = loaded_cudarts(graph, process.objects)
        for major in sorted({i.soname for i in found}):
            copies = [i for i in found if i.soname == major]
            origins = {i.origin for i in copies}
            if len(origins) > 1 and not any(origins <= known for known in reported):
                reported.append(origins)
                yield _finding(graph, process, copies)


RULE = Rule(
    code="GF102",
    severity="error",
    title="two CUDA runtimes would be loaded into one process",
    check=check,
    of_process=True,
)


def _finding(graph: LinkGraph, process: Process, libraries: list[LoadedLibrary]) -> Finding:
    wide = process.scope == "environment"
    one = loads_only_one(libraries)
    wheel = process.blamed([i.wheel for i in libraries])
    members = graph.wheel(wheel).members
    files = tuple(i.file for i in libraries if i.file in members)
    return RULE.finding(
        wheel,
        across=process.across,
        severity="warning" if wide or one else "error",
        files=(process.root,) if process.root else files,
        subjects=tuple(i.subject("", *origin(graph, i.file)) for i in libraries),
        cause=(one,),
        what=SEVERAL_PLACES
        if one
        else "Several copies of libcudart come into one process"
        + (" if these wheels are used together." if wide else "."),
        why=FIRST_WINS
        if one
        else "Each copy has its own last error and registered kernels. Kernels that are "
        "registered with one cannot be launched through the other.",
        fix="Leave libcudart out of the wheel (auditwheel repair --exclude 'libcudart.so.*'), and link "
        "every object with the same libcudart.",
    )
