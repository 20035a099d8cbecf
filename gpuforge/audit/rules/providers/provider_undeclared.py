"""GF203: libraries that the RUNPATH finds but no requirement installs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import ARCHIVES, PACKAGES
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules import wheel_file
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find search paths that lead to a pip package, or to another wheel of the audit, that nothing requires.

    Installed packages of an environment are there without being required.
    """
    projects = {wheel.name: wheel.project for wheel in graph.wheels if wheel.form in ARCHIVES}
    for edge in graph.edges:
        target = edge.provider.object
        if edge.provider.source == "sibling" and target and edge.route and edge.route.is_path:
            project = projects.get(target.wheel, "")
            given = project and edge.loader.wheel in projects
            if given and not (_required(graph, edge, project) or _is_part(graph, edge, target, projects)):
                yield _finding(graph, edge, project)
            continue
        provider = edge.provider
        if provider.source != "package" or provider.declared or not edge.route or edge.preload:
            continue
        if provider.other_major is None:  # else it is reported as GF204
            yield _finding(graph, edge, provider.package)


RULE = Rule(
    code="GF203",
    severity="error",
    title="a NEEDED library is looked for in a package that is not declared",
    check=check,
    applies_to=PACKAGES,
    contradicts="providers",
)


def _required(graph: LinkGraph, edge: Edge, project: str) -> bool:
    return any(graph.requires(name, project) for name in _led_by(graph, edge))


def _is_part(graph: LinkGraph, edge: Edge, target: ElfObject, projects: Mapping[str, str]) -> bool:
    """Return whether the wheel with the library requires the one that needs it: openmm[cuda12] brings its plugins."""
    return graph.requires(target.wheel, projects[edge.loader.wheel])


def _led_by(graph: LinkGraph, edge: Edge) -> set[str]:
    """Return the wheel whose search path led there; with an RPATH of others, also the wheels that need the loader."""
    others = graph.users(edge.loader) if edge.route and edge.route.via else ()
    return {edge.loader.wheel, *(user.loader.wheel for user in others)}


def _finding(graph: LinkGraph, edge: Edge, package: str) -> Finding:
    return RULE.finding(
        edge.loader.wheel,
        files=(edge.loader.file,),
        subjects=(
            Subject(
                file=edge.loader.file,
                library=edge.needed,
                provider=package,
                routes=(edge.route,) if edge.route else (),
            ),
        ),
        what="Search paths lead to packages that the wheel does not declare.",
        why="pip does not install these packages with the wheel, and without them the import fails.",
        fix="Add the packages to Requires-Dist, always or in an extra.",
        commands=wheel_file.with_requirement(graph.wheel(edge.loader.wheel), package),
    )
