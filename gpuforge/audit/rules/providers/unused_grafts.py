"""GF209: grafted libraries that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.cuda import sonames


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find libraries in a `.libs` folder that no object NEEDs: auditwheel grafts only NEEDED libraries."""
    for wheel in graph.wheels:
        needed = {name for o in wheel.objects for name in o.needed}
        for found in (o for o in wheel.objects if o.links and not o.is_program):
            folder = found.file.rpartition("/")[0]
            plain = sonames.plain_name(found.name)
            if not folder.endswith(".libs") or plain == found.name or {found.name, found.soname} & needed:
                continue
            if any(preload.may_open(plain, found.name) for preload in wheel.preloads):
                continue
            yield RULE.finding(
                wheel.name,
                files=(found.file,),
                subjects=(
                    Subject(file=found.file, detail="{size:KiB} KiB", facts=facts_of(size=found.size)),
                ),
                what="Nothing in the wheel NEEDs these grafted libraries.",
                why="They only make the download larger, unless code opens them by exactly this name.",
                fix="Remove them, and run `auditwheel repair` after the last change to the objects.",
            )


RULE = Rule(
    code="GF209",
    severity="info",
    title="a grafted library is used by nothing in the wheel",
    check=check,
    applies_to=PACKAGES,
)
