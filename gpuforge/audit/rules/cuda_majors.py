"""GF104: libraries of two CUDA majors in one process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from gpuforge.audit import declared
from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.model import Finding, Severity
from gpuforge.audit.processes import Process, images, processes
from gpuforge.audit.rules.cudart_images import cudarts
from gpuforge.toolkits import libraries

CODE = "GF104"
SEVERITY: Severity = "error"
TITLE = "libraries of two CUDA majors would be loaded into one process"

_Held = dict[int, dict[str, str]]  # major -> library -> who loads it


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the majors of the CUDA libraries that one process loads, by SONAMEs that only one major has."""
    said: set[frozenset[tuple[int, str]]] = set()
    for process in processes(graph):
        found = _majors(graph, process)
        if len(found) < 2:
            continue
        key = frozenset((major, name) for major, names in found.items() for name in names)
        if any(key <= known for known in said):
            continue
        said.add(key)
        yield _finding(process, found)


@cache
def major_of(soname: str) -> int | None:
    """Return the one CUDA major that has a library of this SONAME; None for several, or for none."""
    plain = libraries.plain_name(soname)
    majors = {library.cuda for library in declared.candidates(plain)}
    return majors.pop() if len(majors) == 1 and declared.other_majors(plain) else None


def _majors(graph: LinkGraph, process: Process) -> _Held:
    found: _Held = {}
    every = images(graph, process.objects, lambda name: major_of(name) is not None)
    for image in (*every, *cudarts(graph, process.objects)):
        major = major_of(image.soname)
        if major is not None:
            found.setdefault(major, {}).setdefault(image.soname, image.loader)
    return found


def _finding(process: Process, found: _Held) -> Finding:
    wide = process.scope != "import"
    return Finding(
        CODE,
        "warning" if wide else SEVERITY,
        process.wheel,
        files=(process.root,) if process.root else (),
        subject=tuple(
            f"CUDA {major}: {name}, loaded by {loader}"
            for major, names in sorted(found.items())
            for name, loader in names.items()
        ),
        message="libraries of two CUDA majors can come into one process, if all of this is imported there: each has "
        "its own runtime, and memory pools, handles and kernels of one are unknown to the other"
        if wide
        else "one import loads libraries of two CUDA majors: each has its own runtime, and handles and kernels of one "
        "are unknown to the other",
        remedy="build all that is used together with one CUDA major, and bound the requirements to it",
    )
