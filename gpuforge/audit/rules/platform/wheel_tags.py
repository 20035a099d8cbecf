"""GF502: the file name and the WHEEL file disagree about the tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import AS_BUILT, Rule

# PEP 600, "Legacy manylinux tags": two names of one tag
_LEGACY = {
    "manylinux1": "manylinux_2_5",
    "manylinux2010": "manylinux_2_12",
    "manylinux2014": "manylinux_2_17",
}


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare both lists of tags, compressed sets written out, and two names of one tag taken for one."""
    for wheel in graph.wheels:
        if not wheel.wheel_tags or not wheel.file_tags or set(wheel.wheel_tags) == set(wheel.file_tags):
            continue
        only_name = _without(wheel.file_tags, wheel.wheel_tags)
        only_inside = _without(wheel.wheel_tags, wheel.file_tags)
        if not (only_name or only_inside):
            continue
        yield RULE.finding(
            wheel.name,
            subjects=(
                *(Subject(item=tag, detail="in the file name only") for tag in only_name),
                *(Subject(item=tag, detail="in WHEEL only") for tag in only_inside),
            ),
            what="The tags in WHEEL are not those of the file name.",
            why="pip installs by the file name, and tools that read WHEEL may reject the installed package.",
            fix="Rename the wheel with `wheel tags`, which changes both.",
        )


RULE = Rule(
    code="GF502",
    severity="warning",
    title="the tags in WHEEL are not those of the file name",
    check=check,
    applies_to=AS_BUILT,
)


def _without(tags: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the tags that are not among the others."""
    known = {_plain(tag) for tag in others}
    return sorted(tag for tag in set(tags) if _plain(tag) not in known)


def _plain(tag: str) -> str:
    return re.sub(r"(?<=-)manylinux(1|2010|2014)(?=_)", lambda match: _LEGACY[match[0]], tag)
