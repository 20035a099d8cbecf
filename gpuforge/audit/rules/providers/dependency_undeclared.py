"""GF214: a library of a required package that needs another library, which nothing installs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import policy
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.cuda import libraries
from gpuforge.cuda.provided import PackageRelease, Shared


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find libraries that a required package NEEDs and that no package installed with it provides."""
    for wheel in graph.wheels if graph.brought else ():
        for release in graph.brought.releases if graph.brought else ():
            for library in release.libraries:
                yield from _missing(graph, wheel, release, library)


RULE = Rule(
    code="GF214",
    severity="error",
    title="a required package needs a library that nothing installs",
    check=check,
    contradicts="requirements",
)


def _missing(
    graph: LinkGraph, wheel: WheelFacts, release: PackageRelease, library: Shared
) -> Iterator[Finding]:
    present = {each.soname for each in release.libraries}
    declared = graph.declared[wheel.name]
    always = release.package in declared and not declared[release.package].extra
    # beside a package that is always installed, those of an extra may be absent
    installed = {*(name for name, d in declared.items() if not (always and d.extra)), *release.requires}
    for needed in library.needed:
        if needed in present or policy.is_system(needed) or not libraries.is_toolkit(needed):
            continue
        packages = [entry.package for entry in libraries.by_soname(needed)]
        if installed.isdisjoint(packages):
            yield _finding(wheel, release, library, needed, packages)


def _finding(
    wheel: WheelFacts, release: PackageRelease, library: Shared, needed: str, packages: list[str]
) -> Finding:
    users = sorted({o.file for o in wheel.objects if library.soname in o.needed})
    return RULE.finding(
        wheel.name,
        files=tuple(users),
        subjects=(
            Subject(
                library=needed,
                detail="for {soname} of {package} {version}, {role}",
                facts=facts_of(
                    soname=library.soname,
                    package=release.package,
                    version=release.version,
                    role=release.role,
                ),
            ),
        ),
        cause=tuple(packages),
        what="A library of a required package needs a library that no declared package brings.",
        why="The import fails with some of the releases that pip may install.",
        fix=f"Add one of these packages to Requires-Dist: {', '.join(packages)}. gpuforge build with "
        'linkage = "pip" does so. Or require only releases that do not need the library.',
    )
