"""GF216: functions of a package that change with each of its releases, in a wheel for several releases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from packaging.version import Version

from gpuforge.audit import version_clauses
from gpuforge.audit.elf_patterns import unstable
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.requirement import required_together
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.elf.mangled import readable
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda.carriers import carriers

_LATER = "9999"  # a release that is not published yet


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find C++ functions of a package in wheels whose requirements or manifest allow several of its minors.

    With a wheel of the package at hand, they are compared with what that defines.
    """
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        for package, group in unstable().items():
            spans = expectation is not None and package in expectation.spans
            at_hand = _defined(graph, package, group) if wheel.project != package else None
            if at_hand is not None:
                yield from _missing(graph, wheel, package, group, at_hand)
            # the release that is at hand has been compared; others are not asked about
            requirement = _several_minors(wheel, package) if at_hand is None else ""
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
        subjects=(_subject(binary, package, names),),
        cause=(package, requirement),
        what=f"Files use C++ functions of {package} that change with each release, and {promise} several releases.",
        why="With another release than that of the build, the import fails with “undefined symbol”, or a function "
        "reads the wrong memory.",
        fix=f"Use the stable ABI of {package} alone, or require the one release of the build.",
    )


def _subject(binary: ElfObject, package: str, names: Sequence[str]) -> Subject:
    """Return a file with one of the functions in readable form, and their number."""
    return Subject(
        file=binary.file,
        item=package,
        detail="{count} functions, such as {example}" if len(names) > 1 else "{example}",
        facts=facts_of(count=len(names), example=readable(names[0])),
    )


def _defined(graph: LinkGraph, package: str, group: str) -> frozenset[str] | None:
    """Return the functions that all given wheels define; None if the package's own is not among them, or unreadable."""
    own = [o for w in graph.wheels if w.project == package for o in w.objects if o.links]
    if not own or any(o.symbols is None for o in own) or not any(o.defined(group) for o in own):
        return None
    return frozenset[str]().union(*(o.defined(group) for w in graph.wheels for o in w.objects))


def _missing(
    graph: LinkGraph, wheel: WheelFacts, package: str, group: str, at_hand: frozenset[str]
) -> Iterator[Finding]:
    """Find functions that the given wheel of a package does not define.

    Of alternatives for several releases (libx_2.4.so, libx_2.5.so), one that finds all of its functions is enough.
    """
    users = [o for o in wheel.objects if o.links and o.undefined(group)]
    fitting = {_alternatives(o) for o in users if o.undefined(group) <= at_hand}
    other = next(w for w in graph.wheels if w.project == package)
    for found in users:
        missing = sorted(found.undefined(group) - at_hand)
        if missing and _alternatives(found) not in fitting:
            yield RULE.finding(
                wheel.name,
                across=True,
                files=(found.file,),
                subjects=(_subject(found, package, missing)._replace(kind="missing", wheel=wheel.name),),
                cause=("at hand", package, other.version),
                what=f"Files use C++ functions that {package} {other.version} of this audit does not define.",
                why="The import fails with “undefined symbol”.",
                fix=f"Build with this release of {package}, or require the one of the build.",
            )


def _alternatives(binary: ElfObject) -> str:
    """Return what the names of objects for several releases of a package have in common."""
    return re.sub(r"\d+([._]\d+)*", "#", binary.file)


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
