"""Judges a wheel together with the packages that it must work beside, for problems that neither has alone."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge.audit import audit, version_clauses
from gpuforge.audit.baseline import Baseline
from gpuforge.audit.findings import Finding, worst_first
from gpuforge.audit.judge import Ignore, Report, WheelReport, sorted_out
from gpuforge.audit.proofs import Proof, fits_beside
from gpuforge.requirements import Release


class Neighbour(NamedTuple):
    """Packages that must work in a wheel's process: the requirement, its packages, and the available wheels of them."""

    requirement: str  # "jax[cuda13]"
    packages: tuple[str, ...]
    wheels: tuple[Path, ...]


def judged(
    report: Report, own: Sequence[Path], neighbours: Iterable[Neighbour], accepted: Sequence[Ignore]
) -> Report:
    """Return the report of a wheel with the additional findings of it together with each neighbour.

    A wheel of a neighbour that cannot be read is a problem of the report.

    `own` are its path and those of its kernels wheels, which follow it in the report.
    """
    wheel, *kernels = report.wheels
    for neighbour in neighbours:
        together = audit([*neighbour.wheels, *own], one_process=True)  # findings of both belong to the last
        wheel = _with(wheel, own, neighbour, together, accepted)
        report = report._replace(problems=(*report.problems, *together.problems))
    return report._replace(wheels=(wheel, *kernels))


def _with(
    wheel: WheelReport,
    own: Sequence[Path],
    neighbour: Neighbour,
    together: Report,
    accepted: Sequence[Ignore],
) -> WheelReport:
    apart = Baseline.of(f for each in (list(own), list(neighbour.wheels)) for f in audit(each).findings)
    new = [finding for finding in together.findings if not apart.covers(finding)]
    rewritten = (
        finding._replace(
            wheel=wheel.facts.name,
            project=wheel.facts.known_as,
            across=False,  # the others are not in this report
            files=finding.files if finding.wheel == wheel.facts.name else (),
            beside=neighbour.requirement,
        )
        for finding in new
    )
    found, ignored = sorted_out(rewritten, accepted)
    proofs = () if together.problems else _proofs(wheel, own, neighbour, together, new)
    return wheel._replace(
        findings=worst_first((*wheel.findings, *found)),
        ignored=(*wheel.ignored, *ignored),
        proofs=(*wheel.proofs, *proofs),
    )


def _proofs(
    wheel: WheelReport, own: Sequence[Path], neighbour: Neighbour, together: Report, new: Iterable[Finding]
) -> Iterator[Proof]:
    given = [each.facts for each in together.wheels]
    names = {path.name for path in own}
    chosen = map(Requirement, neighbour.packages)
    return fits_beside(
        wheel.facts,
        [facts for facts in given if facts.name not in names],
        given,
        new,
        unread=[
            Release(canonicalize_name(package.name), version)
            for package in chosen
            for version in version_clauses.named(str(package.specifier))
        ],
        requirement=neighbour.requirement,
    )
