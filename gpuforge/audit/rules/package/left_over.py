"""GF715: folders that a build has left behind."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.leftover import left_over_folder
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find folders of intermediate files; what lies in them was not read."""
    for wheel in graph.wheels:
        folders: dict[str, list[str]] = {}
        for member in wheel.members:
            if folder := left_over_folder(member):
                folders.setdefault(folder, []).append(member)
        for folder, members in folders.items():
            yield RULE.finding(
                wheel.name,
                files=tuple(members),
                subjects=(
                    Subject(
                        file=folder,
                        detail="{count} {files}, {size:KiB} KiB",
                        facts=facts_of(
                            count=len(members),
                            files="file" if len(members) == 1 else "files",
                            size=sum(wheel.members[member] for member in members),
                        ),
                    ),
                ),
                what="Left-over folders of builds are in the wheel.",
                why="Users download them, and nothing in them is imported or linked. Their files were not judged.",
                fix="Remove the folders before the build, and exclude them from the package.",
                commands=(f"rm -r {shlex.quote(folder)}",),
            )


RULE = Rule(
    code="GF715",
    severity="warning",
    title="a left-over folder of a build is in the wheel",
    check=check,
    applies_to=PACKAGES,
)
