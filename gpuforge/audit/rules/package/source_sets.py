"""GF702: user-compiled sources that are not what their recipe says."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.embedded import SourceSet, Unusable
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.embedded import layout


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each recipe with the files beside it, and the sets with the manifest."""
    for wheel in graph.wheels:
        for sources in wheel.sources:
            for kind, text, *about in _problems(sources):
                yield _finding(wheel, layout.recipe(sources.folder), kind, text, *about)
        names = {sources.name for sources in wheel.sources}
        expectation = graph.expectation_of(wheel)
        for name in expectation.source_sets if expectation else ():
            if name not in names:
                text = f"the user-compiled object {name!r} of the manifest is not in the wheel"
                yield _finding(wheel, "", "missing", text, name)


RULE = Rule(
    code="GF702",
    severity="error",
    title="the sources of a user-compiled object do not match its recipe",
    check=check,
    contradicts="sources",
)


def _problems(sources: SourceSet) -> Iterator[tuple[str, ...]]:
    """Yield each problem of a recipe: its kind, the same in words, and the file that it is about if there is one."""
    if isinstance(sources.recipe, Unusable):
        yield sources.recipe
        return
    for listed in sources.recipe.files:
        file = listed.file
        if file not in sources.digests:
            yield "missing", f"{file} is not in the wheel", file
        elif sources.digests[file] != listed.sha256:
            yield "differs", f"the sha256 of {file} is not the one in the recipe", file


def _finding(wheel: WheelFacts, file: str, kind: str, text: str, *about: str) -> Finding:
    return RULE.finding(
        wheel.name,
        files=(file,) if file else (),
        subjects=(Subject(file=file, detail=text, kind=kind, about=about),),
        what="User-compiled sources do not match their recipe.",
        why="Users cannot compile them.",
        fix="Build the wheel again, and change no file after the recipe was written.",
    )
