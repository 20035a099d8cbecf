"""GF707: the same bytes under several names."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule, Text

_LEAST = 1 << 20  # bytes that removing one copy would save


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find members with the same size and checksum; wheels have no links, so each copy is stored and installed.

    Programs with several names only take space: these findings are for information.
    """
    for wheel in graph.wheels:
        programs = {o.file for o in wheel.objects if o.is_program}
        with_soname = {o.file for o in wheel.objects if o.soname}
        binary = {o.file for o in wheel.objects} | {code.file for code in wheel.device}
        alike: dict[tuple[int, int], list[str]] = {}
        for name, size in wheel.members.items():
            checksum = wheel.checksums.get(name, 0)  # files of a folder have none
            if checksum and name in binary:
                alike.setdefault((size, checksum), []).append(name)
        for (size, _), members in alike.items():
            if len(members) > 1 and size * (len(members) - 1) >= _LEAST:
                started = programs.issuperset(members)
                text = _STARTED if started else _NAMED if with_soname.intersection(members) else _OPENED
                yield RULE.finding(
                    wheel.name,
                    **text._asdict(),
                    files=tuple(members),
                    subjects=(
                        Subject(
                            file=members[0],
                            detail="{size:KiB} KiB, the same as",
                            facts=facts_of(size=size),
                            names=tuple(members[1:]),
                        ),
                    ),
                    cause=(text.fix,),
                )


_COPIES = "The same binary is in the wheel under several names, often former symbolic links."
_TWICE = "Users download and install each copy, and two copies that are loaded do not share their data."
_STARTED = Text(
    "The same program is in the wheel under several names, often former symbolic links.",
    "Users download and install each copy.",
    "Keep one of them, and start it by this name.",
    "info",
)
_NAMED = Text(
    _COPIES, _TWICE, "Keep one file, which is named like its SONAME, and remove the others.", "warning"
)
_OPENED = Text(
    _COPIES,
    _TWICE,
    "Keep one of them, and let the code that opens the others open it by this name.",
    "warning",
)


RULE = Rule(
    code="GF707",
    severity="warning",
    title="the same file is in the wheel several times",
    check=check,
)
