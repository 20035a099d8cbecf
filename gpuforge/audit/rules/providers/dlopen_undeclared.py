"""GF208: libraries that are opened by name at run time and that nothing installs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.nvidia import is_nvidia_library
from gpuforge.audit.rules.rule import Rule
from gpuforge.cuda import sonames


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find SONAMEs of CUDA packages among the constants of objects that neither NEED nor require them.

    It is not an error: a constant does not prove a call, and the code may handle a missing library.
    """
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links and o.mentions and not is_nvidia_library(graph, o)):
            for name in sorted(found.mentions):
                packages = {library.package for library in package_tables.candidates(name)}
                if not packages or _there(graph, wheel, name, packages):
                    continue
                yield RULE.finding(
                    wheel.name,
                    files=(found.file,),
                    subjects=(
                        Subject(file=found.file, library=name, provider=" or ".join(sorted(packages))),
                    ),
                    what="Objects probably open these CUDA libraries with dlopen, and no requirement or extra installs "
                    "them.",
                    why="Without them, the call that opens them fails.",
                    fix="Declare the packages in an extra, and name that extra in the error message.",
                )


RULE = Rule(
    code="GF208",
    severity="warning",
    title="a library is opened by name at run time, and no requirement brings it",
    check=check,
    applies_to=PACKAGES,
)


def _there(graph: LinkGraph, wheel: WheelFacts, name: str, packages: set[str]) -> bool:
    known = graph.declared[wheel.name].keys()
    stem = sonames.stem(name)
    return (
        bool(packages & known)
        or bool(package_tables.other_majors(name) & known)  # one of several majors that are tried in turn
        or any(sonames.stem(sonames.plain_name(o.name)) == stem for o in wheel.objects)
        or any(stem == sonames.stem(needed) for o in wheel.objects for needed in o.needed)
        or any(p.pathfinder for p in wheel.preloads)
        or any(w.project in packages for w in graph.wheels)
    )
