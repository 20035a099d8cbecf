"""GF603: user-compiled sources that name folders of the machine that built the wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit.embedded import Recipe, SourceSet
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.runtime import layout

_ABSOLUTE = r"(?:^|=|-[ILF])(/(?!usr/|opt/nvidia/|dev/null)[\w.+-]+/[^\s\"']*)"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find absolute paths in recipes, and in the #include lines of the sources."""
    for wheel in graph.wheels:
        for sources in wheel.sources:
            for file, path in _paths(sources):
                yield RULE.finding(
                    wheel.name,
                    files=(file,),
                    subjects=(Subject(file=file, item=path),),
                    what="User-compiled sources name folders of the build machine.",
                    why="On other machines they do not compile, or compile with other files.",
                    fix="Use paths relative to the source, and ship the files that they lead to.",
                )


RULE = Rule(
    code="GF603",
    severity="error",
    title="the sources of a user-compiled object name folders of the build machine",
    check=check,
)


def _paths(sources: SourceSet) -> Iterator[tuple[str, str]]:
    yield from (
        (f"{sources.folder}/{file}", path) for file, paths in sources.absolute.items() for path in paths
    )
    for text in sources.recipe.texts if isinstance(sources.recipe, Recipe) else ():
        for path in re.findall(_ABSOLUTE, text):
            yield layout.recipe(sources.folder), path
