"""GF710: given wheels that cannot be installed together."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import version_clauses
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import ARCHIVES, PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.requirement import Requirement, evaluated
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.package.coexistence import can_coexist
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find requirements that no wheel of that project in the audit meets, so that pip does not install them together.

    An object that was compiled against one release need not work with another: torch promises no ABI across releases.
    """
    wheels = [wheel for wheel in graph.wheels if wheel.form in ARCHIVES or wheel.neighbour]
    for wheel in wheels if len(wheels) > 1 else ():
        for project, known in graph.declared[wheel.name].items():
            others = [w for w in wheels if w.project == project and w is not wheel and can_coexist(wheel, w)]
            if others and not known.extra and not any(_meets(other, known.requirement) for other in others):
                joined = f"{project}{known.requirement.versions}"
                yield _finding(wheel, _unmet(wheel, others) or joined, others)
        for framework in dict.fromkeys(p.compares_cuda for p in wheel.preloads if p.compares_cuda):
            others = [
                w for w in wheels if w.project == framework and w is not wheel and can_coexist(wheel, w)
            ]
            yield from _refused(wheel, framework, others)


RULE = Rule(
    code="GF710",
    severity="error",
    title="a wheel requires another version of a wheel in the same audit",
    check=check,
    applies_to=PACKAGES,
)


def _meets(other: WheelFacts, requirement: Requirement) -> bool:
    """Return whether a wheel meets a Requires-Dist line; requirements through other packages have no line."""
    return (
        requirement.name != other.project
        or not other.version
        or version_clauses.allows(requirement.versions, other.version)
    )


def _unmet(wheel: WheelFacts, others: list[WheelFacts]) -> str:
    """Return the first Requires-Dist line that none of the wheels meets; "" if they fail to meet all lines together."""
    for line in wheel.requires:
        required = evaluated(line, wheel)
        if required and not required.extra and not any(_meets(other, required) for other in others):
            return line
    return ""


def _refused(wheel: WheelFacts, framework: str, others: list[WheelFacts]) -> Iterator[Finding]:
    """Find a framework of another CUDA release than a wheel whose own code compares the two and raises an error."""
    checking = [p.file for p in wheel.preloads if p.compares_cuda == framework]
    releases_of = {e.toolkit for d in wheel.device for c in d.containers for e in c.entries if e.toolkit}
    if len(releases_of) != 1:
        return
    own = releases_of.pop()
    for other in (o for o in others if o.cuda_release not in ("", own)):
        yield RULE.finding(
            wheel.name,
            across=True,
            files=checking,
            subjects=(
                Subject(
                    provider=other.project,
                    detail="built with CUDA {0}; {2} {version} was built with CUDA {1}",
                    facts=facts_of(version=other.version),
                    kind="CUDA release",
                    about=(own, other.cuda_release, other.project),
                ),
            ),
            cause=("CUDA release", framework, checking[0]),
            what=f"The wheel was built with another CUDA release than {framework}, and {checking[0]} checks that.",
            why="The check raises an error, so the import fails.",
            fix=f"Install the build of the package for the CUDA release of {framework}, or build both with one "
            "release.",
        )


def _finding(wheel: WheelFacts, line: str, others: list[WheelFacts]) -> Finding:
    return RULE.finding(
        wheel.name,
        across=True,
        subjects=(
            Subject(
                provider=others[0].project,
                detail="requires {0!r}; this audit has {provider} {versions}",
                facts=facts_of(versions=tuple(sorted({other.version for other in others}))),
                kind="requires",
                about=(line,),
            ),
        ),
        what="These wheels cannot be installed together: one requires a different version of the other.",
        why="pip refuses them, and objects that were compiled for the required version may not work with "
        "this one.",
        fix="Audit the wheels that pip would install together, or widen the requirement.",
    )
