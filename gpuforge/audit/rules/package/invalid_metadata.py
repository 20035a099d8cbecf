"""GF704: metadata that installers do not accept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.requirements import InvalidRequirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuforge import requirement_text
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.wheel.dist_info import MetadataProblem

_DETAILS = {
    "several .dist-info folders": "it has {count} .dist-info folders",
    "no file": "its .dist-info folder has no {0}",
    "RECORD": "its RECORD is not a list of comma-separated values",
    "file name": "{name} is not the file name of a wheel (name-version-python-abi-platform.whl)",
    "Requires-Dist": "Requires-Dist: {0}: {problem}",
    "no name": "{0} gives no name",
    "name": "the name is {1!r} in {0} and {project!r} in the file name",
    "no version": "{0} gives no version",
    "version": "the version is {found} in {0} and {version} in the file name",
}


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Report files of .dist-info that are missing, do not parse, or contradict the file name.

    pip makes the same comparisons of the file name: with the folder's name, and with name and version in METADATA.
    """
    for wheel in graph.wheels:
        problems = list(_problems(wheel))
        if problems:
            yield RULE.finding(
                wheel.name,
                subjects=tuple(
                    Subject(detail=_DETAILS[kind], facts=facts_of(**facts), kind=kind, about=about)
                    for kind, about, facts in problems
                ),
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


def _problems(wheel: WheelFacts) -> Iterator[MetadataProblem]:
    yield from wheel.metadata_problems
    if not wheel.file_tags:
        yield MetadataProblem("file name", facts={"name": wheel.name})
    else:
        yield from _contradictions(wheel)
    if wheel.requires:
        yield from _unparsable(wheel.requires)


def _unparsable(requires: Iterable[str]) -> Iterator[MetadataProblem]:
    for line in requires:
        try:
            requirement_text.parse(line)
        except InvalidRequirement as error:
            yield MetadataProblem("Requires-Dist", (line,), {"problem": str(error).splitlines()[0]})


def _contradictions(wheel: WheelFacts) -> Iterator[MetadataProblem]:
    for identity in wheel.identities:
        place = identity.place
        if not identity.name:
            yield MetadataProblem("no name", (place,))
        elif canonicalize_name(identity.name) != wheel.project:
            yield MetadataProblem("name", (place, identity.name), {"project": wheel.project})
        if not identity.version:
            yield MetadataProblem("no version", (place,))
        elif not _same(identity.version, wheel.version):
            yield MetadataProblem("version", (place,), {"found": identity.version, "version": wheel.version})


def _same(one: str, other: str) -> bool:
    """Compare two versions as installers do; a folder has "_" where a version has "-"."""
    if one == other:
        return True
    try:
        return Version(one.replace("_", "-")) == Version(other)
    except ValueError:  # packaging's error, and that of a number with thousands of digits
        return False
