"""GF702: user-compiled sources that are not what their recipe says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import SourceSet, WheelFacts
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each recipe with the files beside it, and the sets with the manifest."""
    for wheel in graph.wheels:
        for sources in wheel.sources:
            for kind, problem, *about in _problems(sources):
                yield _finding(wheel, f"{sources.folder}/recipe.json", kind, problem, *about)
        names = {sources.folder.rpartition("/")[2] for sources in wheel.sources}
        expectation = graph.expectation_of(wheel)
        for name in expectation.source_sets if expectation else ():
            if name not in names:
                problem = f"the user-compiled object {name!r} of the manifest is not in the wheel"
                yield _finding(wheel, "", "missing", problem, name)


RULE = Rule(
    code="GF702",
    severity="error",
    title="the sources of a user-compiled object do not match its recipe",
    check=check,
    contradicts="sources",
)


def _problems(sources: SourceSet) -> Iterator[tuple[str, ...]]:
    """Yield each problem of a recipe: its kind, the same in words, and the file that it is about if there is one."""
    if sources.problem:
        yield "unreadable", sources.problem
        return
    if (
        sources.recipe.get("schema") != 1
        or not sources.recipe.get("sources")
        or not sources.recipe.get("toolchains")
    ):
        yield "schema", "it is not a recipe of schema 1 with sources and toolchains"
        return
    listed: list[object] = []
    for key in ("sources", "includes"):
        entries = sources.recipe.get(key)
        listed += entries if isinstance(entries, list) else []
    for entry in listed:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("file"), str):
            yield "entry", "an entry names no file"
        elif entry["file"] not in sources.digests:
            yield "missing", f"{entry['file']} is not in the wheel", entry["file"]
        elif sources.digests[entry["file"]] != entry.get("sha256"):
            yield "differs", f"the sha256 of {entry['file']} is not the one in the recipe", entry["file"]


def _finding(wheel: WheelFacts, file: str, kind: str, problem: str, *about: str) -> Finding:
    return RULE.finding(
        wheel.name,
        files=(file,) if file else (),
        subjects=(Subject(file=file, detail=problem, kind=kind, about=about),),
        what="User-compiled sources do not match their recipe.",
        why="Users cannot compile them.",
        fix="Build the wheel again, and change no file after the recipe was written.",
    )
