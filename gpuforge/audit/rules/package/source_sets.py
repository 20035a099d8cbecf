"""GF702: user-compiled sources that differ from their recipe."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.embedded import SourceSet, Unusable
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.runtime import layout


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each recipe with the files beside it, and the sets with the manifest."""
    for wheel in graph.wheels:
        for sources in wheel.sources:
            yield from (_finding(wheel, subject) for subject in _subjects(sources))
        names = {sources.name for sources in wheel.sources}
        expectation = graph.expectation_of(wheel)
        for name in expectation.source_sets if expectation else ():
            if name not in names:
                detail = "the user-compiled object {0!r} of the manifest is not in the wheel"
                yield _finding(wheel, Subject(detail=detail, kind="missing", about=(name,)))


RULE = Rule(
    code="GF702",
    severity="error",
    title="the sources of a user-compiled object do not match its recipe",
    check=check,
    contradicts="sources",
)


def _subjects(sources: SourceSet) -> Iterator[Subject]:
    """Yield each problem of a recipe."""
    recipe = layout.recipe(sources.folder)
    if isinstance(sources.recipe, Unusable):
        kind, problem = sources.recipe
        yield Subject(file=recipe, detail="{problem}", facts=facts_of(problem=problem), kind=kind)
        return
    for listed in sources.recipe.files:
        file = listed.file
        if file not in sources.digests:
            yield Subject(file=recipe, detail="{0} is not in the wheel", kind="missing", about=(file,))
        elif sources.digests[file] != listed.sha256:
            detail = "the sha256 of {0} is not the one in the recipe"
            yield Subject(file=recipe, detail=detail, kind="differs", about=(file,))


def _finding(wheel: WheelFacts, subject: Subject) -> Finding:
    return RULE.finding(
        wheel.name,
        files=(subject.file,) if subject.file else (),
        subjects=(subject,),
        what="User-compiled sources do not match their recipe.",
        why="Users cannot compile them.",
        fix="Build the wheel again, and change no file after the recipe was written.",
    )
