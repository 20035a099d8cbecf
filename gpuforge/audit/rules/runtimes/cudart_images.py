"""GF102: two images of the CUDA runtime in one process."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.known import named
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.cudart import cudart_images
from gpuforge.audit.rules.runtimes.processes import FIRST_WINS, Image, Process, one_of_them, processes


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Count the images of each major of libcudart in every process; those of two majors are GF104's."""
    said: list[set[str]] = []
    for process in processes(graph):
        found = cudart_images(graph, process.objects)
        for major in sorted({i.soname for i in found}):
            held = [i for i in found if i.soname == major]
            names = {i.name for i in held}
            if len(names) > 1 and not any(names <= known for known in said):
                said.append(names)
                yield _finding(graph, process, held)


RULE = Rule(
    code="GF102",
    severity="error",
    title="two CUDA runtimes would be loaded into one process",
    check=check,
)


def _finding(graph: LinkGraph, process: Process, found: list[Image]) -> Finding:
    wide = process.scope == "environment"
    one = one_of_them(found)
    wheel = process.blamed([i.wheel for i in found])
    members = next(w.members for w in graph.wheels if w.name == wheel)
    files = tuple(i.name for i in found if i.name in members)
    return RULE.finding(
        wheel,
        severity="warning" if wide or one else "error",
        files=(process.root,) if process.root else files,
        subjects=tuple(
            Subject(library=i.name, detail=named(graph, i.name), loaded_by=(i.loader,)) for i in found
        ),
        message=FIRST_WINS
        if one
        else "several images of libcudart come into one process: the device that one has chosen, its streams' "
        "defaults, its errors and its registered kernels are unknown to the other"
        + (", if these wheels are used together" if wide else ""),
        remedy="exclude libcudart from the graft (auditwheel repair --exclude 'libcudart.so.*') and link every object "
        "with the same one",
    )
