"""GF216: functions of a package that change with each of its releases, in a wheel for several releases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.version import Version

from gpuforge.audit import version_clauses
from gpuforge.audit.elf_patterns import unstable
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.requirement import required_together
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda.carriers import carriers

_LATER = "9999"  # a release that is not published yet


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find C++ functions of a package in wheels whose requirements or manifest allow several of its minors."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        for package, group in unstable().items():
            spans = expectation is not None and package in expectation.spans
            requirement = _several_minors(wheel, package)
            users = (
                [o for o in wheel.objects if o.links and o.undefined(group)] if spans or requirement else []
            )
            for found in users:
                yield _finding(
                    wheel, found, package, sorted(found.undefined(group)), "" if spans else requirement
                )


RULE = Rule(
    code="GF216",
    severity="error",
    title="functions of a package that have no stable form, in a wheel for several of its releases",
    check=check,
    applies_to=PACKAGES,
    contradicts="stable ABI",
)


def _finding(
    wheel: WheelFacts, binary: ElfObject, package: str, names: Sequence[str], requirement: str
) -> Finding:
    """Return the finding of one file; without a requirement that is too wide, the manifest allows the releases."""
    promise = (
        f"the requirement {requirement} allows"
        if requirement
        else f'spans = ["{package}"] of the manifest promises'
    )
    return RULE.finding(
        wheel.name,
        severity="warning" if requirement else "error",
        files=(binary.file,),
        subjects=(Subject(file=binary.file, item=package, detail="uses", names=tuple(names)),),
        cause=(package, requirement),
        what=f"Files use C++ functions of {package} that change with each release, and {promise} several releases.",
        why="With another release than that of the build, the import fails with “undefined symbol”, or a function "
        "reads the wrong memory.",
        fix=f"Use the stable ABI of {package} alone, or require the one release of the build.",
    )


def _several_minors(wheel: WheelFacts, package: str) -> str:
    """Return the requirement of a package that allows several of its minor releases; "" without one."""
    known = {version for row in carriers() if row.package == package for version in row.known}
    for _, found in required_together(wheel):
        if found.name != package:
            continue
        some = (
            known | version_clauses.named(found.versions) | {*version_clauses.below(found.versions), _LATER}
        )
        minors = {Version(each).release[:2] for each in some if version_clauses.allows(found.versions, each)}
        if len(minors) > 1:
            return f"{package}{found.versions}"
    return ""
