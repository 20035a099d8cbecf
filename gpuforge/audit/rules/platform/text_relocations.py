"""GF506: relocations in code."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject

_DT_TEXTREL, _DT_FLAGS, _DF_TEXTREL = 22, 30, 4


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find DT_TEXTREL, or its flag in DT_FLAGS (gABI, "Dynamic Section")."""
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links):
            if _textrel(found):
                yield RULE.finding(
                    wheel.name,
                    files=(found.file,),
                    subjects=(Subject(file=found.file),),
                    what="Objects have relocations in their code (TEXTREL).",
                    why="SELinux and hardened systems refuse to load them, and processes cannot share their code.",
                    fix="Compile all static libraries and objects with -fPIC. With -Wl,-z,text, the link fails and "
                    "names those compiled without it.",
                )


RULE = Rule(
    code="GF506",
    severity="warning",
    title="an object has relocations in its code (TEXTREL)",
    check=check,
)


def _textrel(binary: ElfObject) -> bool:
    return any(
        tag == _DT_TEXTREL or (tag == _DT_FLAGS and value & _DF_TEXTREL) for tag, value in binary.dynamic
    )
