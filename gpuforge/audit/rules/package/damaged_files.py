"""GF705: files of the wheel that cannot be unpacked, and binaries that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule

_EXPLAINED = {"no local header", "local name", "encrypted", "method"}  # reported as GF712


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Report files that cannot be unpacked, damaged ELF files, and damaged fatbin containers.

    The audit reads all binaries, metadata, and the Python code of wheels with libraries.
    """
    for wheel in graph.wheels:
        explained = {r.member for r in wheel.refusals if r.kind in _EXPLAINED}
        problems = {file: problem for file, problem in wheel.unread.items() if file not in explained}
        for file, problem in problems.items():
            corrupt = file in wheel.corrupt
            yield RULE.finding(
                wheel.name,
                severity="error" if corrupt else "warning",
                files=(file,),
                subjects=(Subject(file=file, detail=_detail(problem), facts=facts_of(problem=problem)),),
                what="Files of the wheel cannot be unpacked."
                if corrupt
                else "Files of the wheel cannot be read.",
                why="pip refuses to install it."
                if corrupt
                else "They may not load, and the audit cannot check them.",
                fix="Download or build the wheel again. `python -m zipfile -t FILE` tests all of its files."
                if corrupt
                else "Check what wrote or changed them last: strip, patchelf, an interrupted copy.",
            )


RULE = Rule(
    code="GF705",
    severity="error",
    title="a file in the wheel is damaged",
    check=check,
    of_process=True,
)


def _detail(problem: str | int) -> str:
    return "{problem}" if isinstance(problem, str) else "damaged fatbin containers: {problem}"
