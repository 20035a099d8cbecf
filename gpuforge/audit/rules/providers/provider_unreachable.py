"""GF202: NEEDED libraries that exist, but not where the linker looks."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import layout
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import SEVERAL_FILES
from gpuforge.audit.link.edges import Edge, Obstacle
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules import search_path
from gpuforge.audit.rules.loading import brought_by_module, brought_by_need, brought_by_package, may_be_loaded
from gpuforge.audit.rules.rule import Rule, Text

_THINGS = {"folder": "folder", "installed": "package"}


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find edges with a provider but without a route, unless Python code loads the library first.

    A route in one load set does not help another, which may be the first in its process.
    """
    for edge in graph.edges:
        if edge.reason == "no path":
            yield (_in_wheel_given if edge.provider.object else _declared)(graph, edge)
        elif edge.reason == "not loaded" and edge.obstacle:
            yield _not_loaded(graph, edge, edge.obstacle)
        elif edge.sometimes:
            yield _from_some(graph, edge)


RULE = Rule(
    code="GF202",
    severity="error",
    title="a NEEDED library is provided, but no RPATH or RUNPATH leads to it",
    check=check,
    applies_to=SEVERAL_FILES,
    contradicts="providers",
)


_FIX = (
    "Give the objects a search path to the libraries when they are linked (-Wl,-rpath), or between `wheel unpack` and "
    "`wheel pack`."
)


def _declared(graph: LinkGraph, edge: Edge) -> Finding:
    only_if = "The import works only if"
    before = ""
    if brought_by_module(graph, edge):
        before = "module"
        why = f"{only_if} a Python module of the wheel that has a path to them was imported before."
    elif brought_by_need(graph, edge):
        before = "library"
        why = f"{only_if} another library of the wheel that has a path to them was loaded before."
    elif brought_by_package(graph, edge):
        before = "package"
        why = f"{only_if} a library of another package that needs them was loaded before."
    else:
        why = "The import fails: the dynamic linker does not search the folder where pip installs them."
    return RULE.finding(
        edge.loader.wheel,
        severity="warning" if before else "error",
        files=(edge.loader.file,),
        subjects=(
            Subject(library=edge.needed, provider=edge.provider.package, needed_by=(edge.loader.file,)),
        ),
        cause=("declared", before),
        what="No search path leads to these libraries of declared packages.",
        why=why,
        fix=_FIX,
        commands=search_path.commands(graph, edge.loader),
    )


def _from_some(graph: LinkGraph, edge: Edge) -> Finding:
    target = edge.provider.object
    return RULE.finding(
        edge.loader.wheel,
        severity="warning",
        files=(edge.loader.file,),
        subjects=(
            Subject(
                library=edge.needed,
                provider=target.file if target else edge.provider.package,
                needed_by=(edge.loader.file,),
            ),
        ),
        cause=("order", edge.unfound_from),
        what=f"No search path leads to these libraries where {edge.unfound_from} is loaded first.",
        why=f"{edge.unfound_from} loads only if another import has loaded the libraries before.",
        fix=_FIX,
        commands=search_path.commands(graph, edge.loader),
    )


def _not_loaded(graph: LinkGraph, edge: Edge, obstacle: Obstacle) -> Finding:
    text = _OBSTACLES[obstacle.kind]
    place = layout.Place.of(obstacle.folder)
    # most environments have a lib64, and paths for several Pythons are listed one by one
    usual = obstacle.kind == "folder" and not place.among_packages
    return RULE.finding(
        edge.loader.wheel,
        **(text._replace(severity="info") if usual else text)._asdict(),
        files=(edge.loader.file,),
        subjects=(
            Subject(
                library=edge.needed,
                provider=edge.provider.package,
                detail="{path}",
                facts=facts_of(path=obstacle.file or str(place)),
                kind=obstacle.kind,
                needed_by=(edge.loader.file,),
            ),
        ),
        cause=("obstacle", obstacle.kind, usual),
        commands=search_path.commands(graph, edge.loader) if obstacle.kind == "folder" else (),
    )


_REFUSED = "The dynamic linker refuses them, and the import fails."
_OBSTACLES = {
    "no library": Text(
        "A file with the name of a NEEDED library is not a library, and comes first in the search paths.",
        "The dynamic linker stops at that file, and the import fails.",
        "Remove the file, or put the library in its place.",
        "error",
    ),
    "machine": Text(
        "Files for another machine or ABI have the names of NEEDED libraries, and come first in the search paths.",
        "The dynamic linker stops at those files, and the import fails.",
        "Remove the files, or put libraries for this machine in their places.",
        "error",
    ),
    "folder": Text(
        "Search paths lead to these libraries through folders that not every environment has.",
        "Where the folder does not exist, the import fails.",
        "Write the path without that folder, if it is the same in every environment.",
        "warning",
    ),
    "program": Text(
        "The files that have the names of these NEEDED libraries are programs.",
        _REFUSED,
        "Link them with -shared, and without -pie.",
        "error",
    ),
    "nodlopen": Text(
        "These NEEDED libraries were linked with -z nodlopen: they can be loaded only when a program starts.",
        _REFUSED,
        "Link them again without -z nodlopen.",
        "error",
    ),
    "nodefaultlib": Text(
        "Objects that were linked with -z nodefaultlib need libraries of the system.",
        "The dynamic linker does not look for them in the system's folders: the import works only if something "
        "else has loaded them before.",
        "Link the objects again without -z nodefaultlib.",
        "warning",
    ),
}


def _in_wheel_given(graph: LinkGraph, edge: Edge) -> Finding:
    target = edge.provider.object
    form = graph.wheel(edge.loader.wheel).form
    loaded = form == "folder" or may_be_loaded(graph, edge)
    whose = "another wheel" if edge.provider.source != "wheel" else f"the {_THINGS.get(form, 'wheel')} itself"
    return RULE.finding(
        edge.loader.wheel,
        severity="warning" if loaded else "error",
        files=(edge.loader.file,),
        subjects=(
            Subject(
                library=edge.needed, provider=target.file if target else "", needed_by=(edge.loader.file,)
            ),
        ),
        cause=("given", whose, edge.loader.is_program),
        what=f"No search path leads to these libraries of {whose}.",
        why=_when_loaded(edge, form)
        if loaded
        else "The dynamic linker does not find the libraries, and the objects do not load.",
        fix=_FIX,
        commands=search_path.commands(graph, edge.loader),
    )


def _when_loaded(edge: Edge, form: str) -> str:
    if form == "folder":
        return "They load only if something else has loaded the libraries before, or LD_LIBRARY_PATH leads to them."
    if edge.loader.is_program:
        return "The program starts only if LD_LIBRARY_PATH leads to the libraries."
    return "The import works only if something else has loaded the libraries before."
