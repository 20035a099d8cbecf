"""GF716: import packages with names that many projects have, such as `tests`."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import layout
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import ARCHIVES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule

_COMMON = frozenset(
    [f"{name}{plural}" for name in ("test", "sample", "example", "doc", "benchmark") for plural in ("", "s")]
)


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find Python files in top-level folders with such names, unless the project itself is called so."""
    for wheel in graph.wheels:
        folders: dict[str, list[str]] = {}
        for member in wheel.members:
            place = layout.Place.of(layout.install_path(member))
            if member.endswith(".py") and place.top in _COMMON - {wheel.project, place.path}:
                folders.setdefault(place.top, []).append(member)
        yield from (_finding(wheel, folder, members) for folder, members in folders.items())


RULE = Rule(
    code="GF716",
    severity="warning",
    title="a top-level package has a name that many projects use",
    check=check,
    applies_to=ARCHIVES,
)


def _finding(wheel: WheelFacts, folder: str, members: list[str]) -> Finding:
    subject = Subject(file=f"{folder}/", detail="Python files: {count}", facts=facts_of(count=len(members)))
    return RULE.finding(
        wheel.name,
        files=tuple(members),
        subjects=(subject,),
        what="Top-level packages have names that many projects use.",
        why="Other packages install files into the same folders, so one overwrites the other, and users import the "
        "wrong one.",
        fix="Leave them out of the wheel ([tool.setuptools.packages.find] include), or move them into the project's "
        "own package.",
    )
