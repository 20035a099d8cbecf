"""GF205: libraries that only the package's own Python code loads."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import Preload
from gpuforge.audit.rules.providers.unrequired import without_requirements
from gpuforge.audit.rules.rule import Rule, Text
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import sonames


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find edges without a route whose library some Python file of the wheel names as loaded."""
    for edge in graph.edges:
        if edge.route or edge.preload is None:
            continue
        known = edge.provider.declared
        lacking = edge.provider.source == "package" and known is None and not edge.preload.pathfinder
        if lacking and edge.loader.wheel in without_requirements(graph):
            continue  # reported as GF201
        provider, where, extra = "", "", ""
        if edge.provider.source == "wheel":
            where = "in this wheel"
        elif known is None and edge.provider.object is not None:
            provider = edge.provider.object.wheel
        elif known is None:
            where = "no requirement declares it"
        else:
            provider, extra = known.package, known.extra
            where = "in the extra [{extra}]" if extra else ""
        text = _LACKING if lacking else _FIRST
        function = "" if lacking else _left_to_users(edge.preload, edge.loader)
        if function:
            text = _UNCALLED
        yield RULE.finding(
            edge.loader.wheel,
            **text.filled(file=edge.preload.file, function=function)._asdict(),
            files=(edge.loader.file,),
            subjects=(
                Subject(
                    library=edge.needed,
                    provider=provider,
                    detail=where,
                    facts=facts_of(extra=extra) if extra else (),
                    needed_by=(edge.loader.file,),
                ),
            ),
            cause=(lacking, edge.preload.file, function),
        )


_LACKING = Text(
    "No search path leads to these libraries; {file} loads them first.",
    "No requirement brings them: the code finds them only where the user has installed them.",
    "Add the packages to Requires-Dist, always or in an extra.",
    "warning",
)
_FIRST = Text(
    "No search path leads to these libraries; {file} loads them first.",
    "The import works only after that code has run.",
    "None needed if that code runs before these objects are imported.",
    "info",
)
_UNCALLED = Text(
    "No search path leads to these libraries; {function} in {file} loads them, and nothing in the wheel calls it.",
    "These objects load only if the user's code has called it, or has imported a package that brings the libraries.",
    "Call {function} when the package is imported, or give the objects a RUNPATH to the folders of the packages.",
    "warning",
)


RULE = Rule(
    code="GF205",
    severity="warning",
    title="a NEEDED library is found only because Python code loads it before",
    check=check,
    applies_to=PACKAGES,
    contradicts="providers",
    contradicts_from="info",
)


def _left_to_users(preload: Preload, loader: ElfObject) -> str:
    """Return the function that only users call to load libraries; "" if it is called, or loads the object, too."""
    stems = {loader.name, sonames.bare(loader.name)}
    return f"{preload.uncalled[0]}()" if preload.uncalled and not stems & preload.uncalled_names else ""
