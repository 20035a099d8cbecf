"""GF505: machine code for newer processors than the tag promises."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject

_NEEDED = r"lib(?=.*\.so).*[-_](avx512\w*|avx2|avx)\b.*"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find x86-64 levels in GNU properties, and runtimes for such processors that are NEEDED.

    A wheel tag for x86_64 promises only the baseline (PEP 600: every machine of the name has it).
    """
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links):
            for subject in _markers(found):
                yield RULE.finding(
                    wheel.name,
                    files=(found.file,),
                    subjects=(subject,),
                    what="The tag promises that any x86-64 processor is enough, and objects need a newer one.",
                    why="On older processors they stop with an illegal instruction, or do not load.",
                    fix="Compile for the baseline (-march=x86-64; nvc++: -tp=px) and choose faster code at run time, "
                    "or document the processor that users need.",
                )


RULE = Rule(
    code="GF505",
    severity="warning",
    title="an object needs a newer processor than the tag promises",
    check=check,
    contradicts="platform",
)


def _markers(binary: ElfObject) -> Iterator[Subject]:
    if binary.isa:
        yield Subject(file=binary.file, item=binary.isa, detail="required by its GNU property")
    for name in binary.needed:
        if match := re.fullmatch(_NEEDED, name):
            yield Subject(
                library=name, detail="for {level}", facts=facts_of(level=match[1]), needed_by=(binary.file,)
            )
