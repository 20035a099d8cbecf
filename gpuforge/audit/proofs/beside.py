"""Proves that packages and a wheel fit into one process."""

from collections.abc import Iterable, Iterator, Sequence

from gpuforge.audit.findings import Finding
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.proofs.installable import is_installable
from gpuforge.audit.proofs.proof import FitsBeside, Proof
from gpuforge.requirements import Release


def fits_beside(
    wheel: WheelFacts,
    beside: Sequence[WheelFacts],
    given: Iterable[WheelFacts],
    findings: Iterable[Finding],
    *,
    unread: Iterable[Release] = (),
    python: str = "",
    requirement: str = "",
) -> Iterator[Proof]:
    """Yield the proof that the packages `beside` a wheel fit; both are among those `given`.

    They fit if all that were given were read completely, there is no finding, accepted or not, about them together, and
    pip installs the wheel beside them into this Python. `unread` are releases that are installed, too, and whose
    libraries are known without their wheels.
    """
    wheels = list(given)
    available = [*unread, *(Release(each.project, each.version) for each in wheels)]
    if (
        beside
        and all(each.complete for each in wheels)
        and all(finding.severity == "info" for finding in findings)
        and is_installable(wheel, beside, available, python)
    ):
        yield Proof("beside", FitsBeside(len(beside), requirement))
