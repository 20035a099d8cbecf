"""GF704: metadata that installers cannot work with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.requirements import InvalidRequirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.requirement import parse
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import PACKAGES, Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Report files of .dist-info that are missing, do not parse, or contradict the file name.

    pip compares the same things: the name of the folder, and name and version in METADATA, with the file name.
    """
    for wheel in graph.wheels:
        problems = list(_problems(wheel))
        if problems:
            yield RULE.finding(
                wheel.name,
                subjects=tuple(Subject(detail=problem) for problem in problems),
                what="Installers cannot use the metadata of the wheel.",
                why="pip refuses the wheel, or installs it under a wrong name or version.",
                fix="Correct the lines above: see the PyPA specifications of the wheel format and of core metadata.",
            )


RULE = Rule(
    code="GF704",
    severity="error",
    title="the wheel's metadata cannot be used",
    check=check,
    applies_to=PACKAGES,
)


def _problems(wheel: WheelFacts) -> Iterator[str]:
    yield from wheel.metadata_problems
    if not wheel.file_tags:
        yield f"{wheel.name} is not the file name of a wheel (name-version-python-abi-platform.whl)"
    else:
        yield from _contradictions(wheel)
    if wheel.requires:
        yield from _unparsable(wheel.requires)


def _unparsable(requires: Iterable[str]) -> Iterator[str]:
    for line in requires:
        try:
            parse(line)
        except InvalidRequirement as error:
            yield f"Requires-Dist: {line}: {str(error).splitlines()[0]}"


def _contradictions(wheel: WheelFacts) -> Iterator[str]:
    for identity in wheel.identities:
        if not identity.name:
            yield f"{identity.place} gives no name"
        elif canonicalize_name(identity.name) != wheel.project:
            yield f"{identity.place} is of {identity.name!r}, the file name of {wheel.project!r}"
        if not identity.version:
            yield f"{identity.place} gives no version"
        elif not _same(identity.version, wheel.version):
            yield f"{identity.place} is of version {identity.version}, the file name of {wheel.version}"


def _same(one: str, other: str) -> bool:
    """Compare two versions as installers do; a folder writes "_" where a version has "-"."""
    if one == other:
        return True
    try:
        return Version(one.replace("_", "-")) == Version(other)
    except ValueError:  # its own, and that of a number with thousands of digits
        return False
