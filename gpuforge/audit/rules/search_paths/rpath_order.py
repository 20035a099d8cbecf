"""GF305: search paths whose order leads to another library of the same name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from itertools import dropwhile, islice

from gpuforge.audit import layout
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.route import Route
from gpuforge.audit.rules import search_path
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find entries before the right one for a NEEDED library, in which another copy of it may be."""
    places = {w.name: {layout.install_path(o.file) for o in w.objects if o.links} for w in graph.wheels}
    for edge in graph.edges:
        if edge.provider.source not in ("wheel", "package") or not (edge.route and edge.route.is_path):
            continue
        route = edge.route
        for entry in _before(edge):
            yield _finding(
                graph,
                edge,
                (entry, route),
                "before",
                "Folders of the system or of other packages come first in the search paths.",
                "If such a folder has a copy of the library, of any version, that copy is loaded.",
            )
        for entry in _behind(edge, places[edge.loader.wheel]):
            yield _finding(
                graph,
                edge,
                (route, entry),
                "behind",
                "Search paths lead to another package before the wheel's own library of that name.",
                "Where that package is installed, its library is loaded instead.",
            )


RULE = Rule(
    code="GF305",
    severity="warning",
    title="the order of search paths lets another package's library win",
    check=check,
)


def _finding(
    graph: LinkGraph, edge: Edge, routes: tuple[Route, Route], cause: str, what: str, why: str
) -> Finding:
    return RULE.finding(
        edge.loader.wheel,
        files=(edge.loader.file,),
        subjects=(
            Subject(
                file=edge.loader.file, library=edge.needed, provider=edge.provider.package, routes=routes
            ),
        ),
        cause=(cause,),
        what=what,
        why=why,
        fix="Put the entry that leads to the right library first.",
        commands=search_path.commands(graph, edge.loader),
    )


def _behind(edge: Edge, places: set[str]) -> Iterator[Route]:
    """Yield the first entry behind the one that leads to a package, in whose folder the wheel has its own copy."""
    if edge.provider.source != "package":
        return
    after = dropwhile(lambda entry: entry.route != edge.route, layout.search(edge.loader, ()))
    yield from islice((e.route for e in after if f"{e.folder}/{edge.needed}" in places), 1)


def _before(edge: Edge) -> Iterator[Route]:
    rivals = {
        posixpath.join(layout.SITE, library.folder) for library in package_tables.candidates(edge.needed)
    }
    for entry in layout.search(edge.loader, ()):
        if entry.route == edge.route:
            return
        outside = not f"{entry.folder}/".startswith(f"{layout.ENVIRONMENT}/")
        if (outside and layout.is_shared(entry.folder)) or entry.folder in rivals:
            yield entry.route
