"""Findings that were there before: a file of them is written once, and accepts them from then on, but no new one.

A finding is known by its rule, its severity, the project and its subjects. What changes from build to build
(the hash in a grafted library's name, the Python of an extension's name, the version in the wheel's name) is
written `*`. A finding that became more severe is a new one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from packaging.utils import canonicalize_name

from gpuforge.audit.model import NEEDED_BY, SEVERITIES, Finding, Ignored, Severity
from gpuforge.diagnostics import Place
from gpuforge.errors import UsageError

SCHEMA = 1
REASON = "in the baseline"
_CHANGING = (
    (re.compile(r"([-.])[0-9a-f]{8}(?=[.]so\b)"), r"\1*"),  # auditwheel's and delocate's hashes
    (re.compile(r"\bcpython-3\d+(?=-)"), "cpython-*"),
    (re.compile(r"\bcp3\d+-cp3\d+t?-"), "*-"),
)


@dataclass(frozen=True, slots=True, order=True)
class Known:
    """One accepted subject of a finding."""

    code: str
    severity: Severity
    project: str
    subject: str

    def __str__(self) -> str:
        """Write it as a line of a message."""
        return f"{self.code} {self.project}: {self.subject}"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The findings of a file; `reason` is what a report says of those that it accepts."""

    known: frozenset[Known]
    reason: str = REASON

    def covers(self, finding: Finding) -> bool:
        """Say whether each subject of a finding is known, at this severity or a worse one."""
        worse = SEVERITIES[: SEVERITIES.index(finding.severity) + 1]
        return all(
            any(Known(one.code, severity, one.project, one.subject) in self.known for severity in worse)
            for one in of_finding(finding)
        )


class Acceptance(Protocol):
    """What accepts findings, and why."""

    @property
    def reason(self) -> str:
        """Why they are accepted."""

    def covers(self, finding: Finding) -> bool:
        """Say whether it accepts a finding."""


def read(path: Path) -> Baseline:
    """Read a baseline. Raises UsageError for a file that is none, or that cannot be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data["schema"] != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        return Baseline(frozenset(Known(**_row(row)) for row in data["findings"]))
    except OSError as error:
        raise UsageError.of(
            f"the baseline cannot be read: {error.strerror or error}",
            place=Place(str(path)),
            hint="--write-baseline writes one",
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError.of(
            f"it is no baseline: {said}",
            place=Place(str(path)),
            hint="write it anew with --write-baseline",
        ) from error


def _row(row: dict[str, Any]) -> dict[str, Any]:
    texts = {key: row[key] for key in ("code", "severity", "project", "subject")}
    if not all(isinstance(text, str) for text in texts.values()) or row["severity"] not in SEVERITIES:
        raise ValueError(f"a finding of it cannot be understood: {row}")
    return texts


def dumps(findings: Iterable[Finding]) -> str:
    """Return the text of a baseline that accepts these findings and nothing else."""
    known = sorted({one for finding in findings for one in of_finding(finding)})
    rows = [
        {"code": k.code, "severity": k.severity, "project": k.project, "subject": k.subject} for k in known
    ]
    return json.dumps({"schema": SCHEMA, "findings": rows}, indent=1, ensure_ascii=False) + "\n"


def unused(baseline: Baseline, ignored: Iterable[Ignored]) -> list[Known]:
    """Return what a baseline lists and nothing was accepted by: it was mended, or is worded otherwise now."""
    met = {
        (one.code, one.project, one.subject)
        for i in ignored
        if i.reason == baseline.reason
        for one in of_finding(i.finding)
    }
    return sorted(k for k in baseline.known if (k.code, k.project, k.subject) not in met)


def of_finding(finding: Finding) -> Iterator[Known]:
    """Yield a finding's subjects as a baseline has them."""
    project = project_of(finding.wheel)
    for subject in finding.subject or ("",):
        library, needed_by, loaders = subject.partition(NEEDED_BY)  # several were joined into one line
        for loader in loaders.split(", "):
            text = f"{library}{needed_by}{loader}".replace(finding.wheel, project)
            for pattern, instead in _CHANGING:
                text = pattern.sub(instead, text)
            yield Known(finding.code, finding.severity, project, text)


def project_of(wheel: str) -> str:
    """Return the project that a wheel, as a report calls it, is of."""
    return canonicalize_name(PurePosixPath(wheel).name.partition("-")[0])
