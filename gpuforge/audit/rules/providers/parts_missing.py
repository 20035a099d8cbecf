"""GF213: a library of NVIDIA in the wheel that does not find the parts that it opens by name."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import SEVERAL_FILES
from gpuforge.audit.link import opened, package_tables
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules import search_path
from gpuforge.audit.rules.nvidia import is_nvidia_wheel
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import sonames


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find copies of cuDNN, NVRTC, CUPTI or cuFFT whose parts are all missing, or that have no search path to them.

    auditwheel copies NEEDED libraries, and the parts are not NEEDED. If some are there, the others were left out on
    purpose (cuDNN without its training). NVIDIA's own packages are judged, too: those of NVRTC 13.0 have no RUNPATH.
    """
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links):
            for always in (True, False):
                names = opened.parts(found, always=always)
                edges = [
                    graph.opened[key]
                    for name in names
                    if (key := (wheel.name, found.file, name)) in graph.opened
                ]
                if not edges:
                    continue
                lost = [e for e in edges if e.reason == "no path" and not _is_loaded(graph, e)]
                if lost:
                    yield _unreachable(graph, found, lost)
                elif not is_nvidia_wheel(wheel) and all(_is_missing(graph, wheel, e) for e in edges):
                    yield _missing(found, names, edges, always=always)


RULE = Rule(
    code="GF213",
    severity="warning",
    title="a library of NVIDIA opens its parts by name, and does not find them",
    check=check,
    applies_to=SEVERAL_FILES,
)


def _is_loaded(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether another object of the wheel, which has a path to a part, loads it: then opening it succeeds."""
    target = edge.provider.object
    if target is None:
        return any(
            e.needed == edge.needed and (e.route or e.preload)
            for e in graph.of(graph.wheel(edge.loader.wheel))
        )
    return any(user.route or user.preload for user in graph.users(target)) or _is_under_any_name(graph, edge)


def _is_under_any_name(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether an object NEEDs a part under a hashed name: NVRTC uses builtins that are in the process."""
    stem = sonames.stem(edge.needed)
    wheel = graph.wheel(edge.loader.wheel)
    needed = {n for o in wheel.objects for n in o.needed if sonames.stem(sonames.plain_name(n)) == stem}
    return any(o.name in needed for o in wheel.objects)


def _is_missing(graph: LinkGraph, wheel: WheelFacts, edge: Edge) -> bool:
    """Return whether nothing has a part: not the wheel, under any name, and no package that is installed with it."""
    undeclared = edge.provider.source == "package" and not (edge.provider.declared or edge.preload)
    if (edge.reason is None and not undeclared) or edge.obstacle or _is_under_any_name(graph, edge):
        return False
    packages = {library.package for library in package_tables.candidates(edge.needed)}
    given = {each.project for each in graph.wheels}
    if packages & (given | graph.declared[wheel.name].keys()):
        return False
    return not any(preload.opens(edge.needed) for preload in wheel.preloads)


def _missing(binary: ElfObject, names: list[str], edges: list[Edge], *, always: bool) -> Finding:
    packages = sorted({p.package for e in edges for p in package_tables.candidates(e.needed)})
    leave = (
        f"Leave the library out of the wheel, require its package ({' or '.join(packages)}) and add a RUNPATH to it; "
        "or graft the libraries that it opens, too, under their own names."
    )
    return RULE.finding(
        binary.wheel,
        files=(binary.file,),
        subjects=(Subject(file=binary.file, detail="opens", names=tuple(names)),),
        cause=(always, *packages),
        what="NVIDIA libraries in the wheel open other libraries by name, and the wheel contains none of these."
        if always
        else "NVIDIA libraries in the wheel open other libraries for some of their features, and nothing brings these.",
        why="The first call that needs one fails, and cuDNN ends the process, unless the machine has the same version "
        "installed."
        if always
        else "What needs them fails: NVIDIA's own package of the library requires them.",
        fix=leave
        if always
        else f"Require the packages ({', '.join(packages)}) and add a RUNPATH to their folders; or leave the library "
        "out of the wheel, and require NVIDIA's package of it.",
    )


def _unreachable(graph: LinkGraph, binary: ElfObject, edges: list[Edge]) -> Finding:
    """Return the finding of parts that are in the wheel or in a declared package, where no search path leads."""
    return RULE.finding(
        binary.wheel,
        files=(binary.file,),
        subjects=(
            Subject(
                file=binary.file, detail="opens", kind="no path", names=tuple(edge.needed for edge in edges)
            ),
        ),
        cause=("no path",),
        what="NVIDIA libraries open other libraries by name, and none of their search paths leads to these.",
        why="The first call that needs one fails, and cuDNN ends the process, unless something else has loaded them "
        "before or LD_LIBRARY_PATH leads to them.",
        fix="Take a release of NVIDIA's package whose libraries have the search path, or add it.",
        commands=search_path.commands(graph, binary),
    )
