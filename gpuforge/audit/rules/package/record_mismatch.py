"""GF703: a RECORD that differs from the wheel's files."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import AS_BUILT
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule

# PyPA, "The signed wheel file": not listed, or without a hash
_UNLISTED = ("/RECORD", "/RECORD.jws", "/RECORD.p7s")

_FIX = "Write RECORD again: unpack the wheel with `unzip`, as `wheel unpack` refuses it, and pack it with `wheel pack`."


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare RECORD with the archive: the names, the sizes that it has, and the hashes if requested."""
    for wheel in graph.wheels:
        problems = tuple(_problems(wheel))
        if problems:
            yield RULE.finding(
                wheel.name,
                files=tuple(problem.file for problem in problems if problem.file),
                severity="warning",
                subjects=problems,
                what="RECORD does not match the files of the wheel.",
                why="Installers may refuse the wheel, and cannot uninstall all of it.",
                fix=_FIX,
            )
        if wheel.rehashed:
            yield RULE.finding(
                wheel.name,
                severity="error",
                files=wheel.rehashed,
                subjects=tuple(Subject(file=file, item="hash") for file in wheel.rehashed),
                what="The content of files differs from RECORD.",
                why="They were changed after RECORD was written; pip and uv do not notice.",
                fix=_FIX,
            )


RULE = Rule(
    code="GF703",
    severity="error",
    title="RECORD does not match the wheel's files",
    check=check,
    applies_to=AS_BUILT,
)


def _problems(wheel: WheelFacts) -> Iterator[Subject]:
    if wheel.record is None:
        return  # reported as GF704
    if wheel.record.more:
        detail = "{count:,} more lines of RECORD name files that are not in the wheel"
        yield Subject(detail=detail, facts=facts_of(count=wheel.record.more), kind="more")
    for name in wheel.record.unlisted:
        if not name.endswith(_UNLISTED):
            yield Subject(file=name, detail="not in RECORD", kind="not listed")
    for name, (digest, size) in wheel.record.odd.items():
        if name.endswith(_UNLISTED):
            continue
        if name not in wheel.members:
            yield Subject(file=name, detail="in RECORD and not in the wheel", kind="missing")
        elif size is not None and size != wheel.members[name]:
            facts = facts_of(size=wheel.members[name], recorded=size)
            yield Subject(file=name, detail="{size} bytes, {recorded} in RECORD", facts=facts, kind="size")
        elif not digest:
            yield Subject(file=name, detail="without a hash in RECORD", kind="no hash")
