"""GF209: grafted libraries that nothing uses."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import sonames


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find libraries in a `.libs` folder that no used object NEEDs: auditwheel grafts only NEEDED libraries."""
    for wheel in graph.wheels:
        for found in _unused(wheel):
            yield RULE.finding(
                wheel.name,
                files=(found.file,),
                subjects=(
                    Subject(file=found.file, detail="{size:KiB} KiB", facts=facts_of(size=found.size)),
                ),
                what="Nothing in the wheel NEEDs these grafted libraries.",
                why="They only make the download larger, unless code opens them by exactly this name.",
                fix="Remove them, and run `auditwheel repair` after the last change to the objects.",
                commands=(f"rm {shlex.quote(found.file)}",),
            )


RULE = Rule(
    code="GF209",
    severity="info",
    title="a grafted library is used by nothing in the wheel",
    check=check,
    applies_to=PACKAGES,
)


def _unused(wheel: WheelFacts) -> list[ElfObject]:
    """Return the grafted libraries that nothing NEEDs or opens, and those that only these NEED."""
    linked = {o.file: o for o in wheel.objects if o.links}
    grafts = {o.file: o for o in linked.values() if _is_graft(o)}
    unused: dict[str, ElfObject] = {}
    while True:
        needed = {name for file, o in linked.items() if file not in unused for name in o.needed}
        more = {
            file: o
            for file, o in grafts.items()
            if file not in unused and needed.isdisjoint((o.name, o.soname)) and not _is_opened(wheel, o)
        }
        if not more:
            return list(unused.values())
        unused |= more


def _is_graft(binary: ElfObject) -> bool:
    folder = binary.file.rpartition("/")[0]
    hashed = sonames.plain_name(binary.name) != binary.name
    return hashed and folder.endswith(".libs") and not binary.is_program


def _is_opened(wheel: WheelFacts, binary: ElfObject) -> bool:
    """Return whether Python code names a library, or a file that tells a loader what to open, such as an `.icd`."""
    names = sonames.plain_name(binary.name), binary.name
    return binary.name in wheel.loader_files or any(p.may_open(*names) for p in wheel.preloads)
