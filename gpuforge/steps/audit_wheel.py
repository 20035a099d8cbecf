"""Audit the wheels of a build: the JSON report goes to a file, the text to the log; error findings fail the step."""

from __future__ import annotations

from pathlib import Path

from gpuforge.audit import audit, beside
from gpuforge.audit.beside import Neighbour
from gpuforge.audit.judge import Report, accepted_by
from gpuforge.audit.report import data, text
from gpuforge.cuda.provided import Provided
from gpuforge.errors import ActionError
from gpuforge.plan.requests.audit import RESOLUTION, AuditWheel, Resolution
from gpuforge.steps import entry, tested_releases, value_file


def main(request: AuditWheel) -> None:
    """Audit `wheel` (a wheel, or a folder of wheels) against the expectation.

    Writes `report`; raises ActionError for findings of severity error, and for wheels that cannot be read.
    """
    wheels = sorted(request.wheel.glob("*.whl")) if request.wheel.is_dir() else [request.wheel]
    if not wheels:
        raise ActionError.of(f"{request.wheel} holds no wheel", hint="the step before this one made none")
    brought = None
    if request.provided:
        brought = tested_releases.with_tested(value_file.read(Provided, request.provided), request.installed)
    own = sorted(request.kernels.glob("*.whl")) if request.kernels else []
    report = audit([*wheels, *own], expectation=request.expectation, brought=brought)
    if request.beside and len(wheels) == 1 and len(report.wheels) == 1 + len(own):
        accepted = accepted_by(request.expectation)
        report = beside.judged(report, [*wheels, *own], map(_neighbour, request.beside), accepted)
    for file, part in ((request.report, _of(report, wheels)), (request.kernels_report, _of(report, own))):
        if file:
            file.write_text(data.dumps(part), encoding="utf-8")
    print(text.render(report, width=100), end="")
    if report.problems:
        raise ActionError(*report.problems)
    errors = [finding for finding in report.findings if finding.severity == "error"]
    if errors:
        codes = ", ".join(sorted({finding.code for finding in errors}))
        error = ActionError.of(
            f"the audit found errors: {codes}",
            hint="the findings above say what to change; [audit] ignore accepts one, with a reason",
        )
        error.add_note(text.render(_errors_of(report), width=100))
        raise error


def _of(report: Report, wheels: list[Path]) -> Report:
    """Return the part of a report about some of its wheels, with all problems of reading."""
    names = {path.name for path in wheels}
    return report._replace(wheels=tuple(each for each in report.wheels if each.facts.name in names))


def _errors_of(report: Report) -> Report:
    """Return the part of a report that explains a failure: the errors, without the proofs."""
    errors = (
        each._replace(
            findings=tuple(f for f in each.findings if f.severity == "error"), proofs=(), ignored=()
        )
        for each in report.wheels
    )
    return report._replace(wheels=tuple(each for each in errors if each.findings), together=None)


def _neighbour(folder: Path) -> Neighbour:
    return Neighbour(*value_file.read(Resolution, folder / RESOLUTION), tuple(sorted(folder.glob("*.whl"))))


if __name__ == "__main__":
    entry.run(AuditWheel, main)
