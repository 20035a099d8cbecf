"""GF707: the same bytes under several names."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule

_LEAST = 1 << 20  # bytes that removing one copy would save


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find members with the same size and checksum; wheels have no links, so each copy is stored and installed.

    Programs with several names only take space: these findings are for information.
    """
    for wheel in graph.wheels:
        programs = {o.file for o in wheel.objects if o.is_program}
        binary = {o.file for o in wheel.objects} | {code.file for code in wheel.device}
        alike: dict[tuple[int, int], list[str]] = {}
        for name, size in wheel.members.items():
            checksum = wheel.checksums.get(name, 0)  # files of a folder have none
            if checksum and name in binary:
                alike.setdefault((size, checksum), []).append(name)
        for (size, _), members in alike.items():
            if len(members) > 1 and size * (len(members) - 1) >= _LEAST:
                started = programs.issuperset(members)
                yield RULE.finding(
                    wheel.name,
                    severity="info" if started else "warning",
                    files=tuple(members),
                    subjects=(
                        Subject(
                            file=members[0],
                            detail="{size:KiB} KiB, the same as",
                            facts=facts_of(size=size),
                            names=tuple(members[1:]),
                        ),
                    ),
                    what=f"The same {'program' if started else 'binary'} is in the wheel under several names, often "
                    "former symbolic links.",
                    why="Users download and install each copy."
                    if started
                    else "Users download and install each copy, and two copies that are loaded do not share their "
                    "data.",
                    fix="Keep one of them, and start it by this name."
                    if started
                    else "Keep the file that is named like its SONAME, and remove the others.",
                )


RULE = Rule(
    code="GF707",
    severity="warning",
    title="the same file is in the wheel several times",
    check=check,
)
