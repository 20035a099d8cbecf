"""Accepts the known findings that a file lists; all others stay findings.

A finding is identified by its rule, its severity, the project and the fields of its subjects: file, library, item,
kind, what it is about, and each of its names. Parts that change from build to build are written `*`: the hash in a
grafted library's name, the Python in an extension's name, the version in a wheel's name. A finding that became more
severe is a new one (docs/decisions/audit.md).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self

from gpuforge.audit.findings import SEVERITIES, Finding, Ignored, Severity, Subject
from gpuforge.audit.layout import Route
from gpuforge.audit.model import project_of
from gpuforge.cuda import sonames
from gpuforge.diagnostics import Place
from gpuforge.errors import UsageError
from gpuforge.grouping import grouped

SCHEMA = 1
REASON = "in the baseline"
_CHANGING = (
    (sonames.GRAFT_HASH, "*"),
    (re.compile(r"\bcpython-3\d+(?=-)"), "cpython-*"),
    (re.compile(r"\bcp3\d+-cp3\d+t?-"), "*-"),
)
_REQUIRED = ("code", "severity", "project")


class AcceptedSubject(NamedTuple):
    """One accepted subject of a finding: a row of the file."""

    code: str
    severity: Severity
    project: str
    file: str = ""
    library: str = ""
    item: str = ""
    kind: str = ""
    about: tuple[str, ...] = ()
    name: str = ""  # one of the subject's names

    @property
    def identity(self) -> Self:
        """The row without its severity: a finding is known at this severity or a lower one."""
        return self._replace(severity="error")

    def accepts(self, other: Self) -> bool:
        """Return whether it accepts a subject."""
        lower = SEVERITIES.index(other.severity) >= SEVERITIES.index(self.severity)
        return lower and self.identity == other.identity


@dataclass(frozen=True)
class Baseline:
    """The accepted findings of a file; `reason` is the reason that reports give."""

    accepted: frozenset[AcceptedSubject]
    reason: str = REASON

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Self:
        """Return a baseline that accepts these findings and nothing else."""
        return cls(frozenset(subject for finding in findings for subject in of_finding(finding)))

    def covers(self, finding: Finding) -> bool:
        """Return whether each subject of a finding is accepted, at this severity or a worse one."""
        return all(
            any(row.accepts(one) for row in self.rows.get(one.identity, ())) for one in of_finding(finding)
        )

    @cached_property
    def rows(self) -> Mapping[AcceptedSubject, list[AcceptedSubject]]:
        """The rows by their identity."""
        return grouped((row.identity, row) for row in self.accepted)


def read(path: Path) -> Baseline:
    """Read a baseline. Raises UsageError for a file that is not one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data["schema"] != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        return Baseline(frozenset(map(_row, data["findings"])))
    except OSError as error:
        raise UsageError.of(
            f"the baseline cannot be read: {error.strerror or error}",
            place=Place(str(path)),
            hint="--write-baseline writes one",
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError.of(
            f"it is not a baseline: {problem}",
            place=Place(str(path)),
            hint="write it anew with --write-baseline",
        ) from error


def _row(row: dict[str, Any]) -> AcceptedSubject:
    texts = {name: row[name] for name in _REQUIRED}
    texts |= {name: row.get(name, "") for name in AcceptedSubject._fields if name not in {*texts, "about"}}
    about = row.get("about", [])
    known = isinstance(about, list) and row["severity"] in SEVERITIES
    if not known or not all(isinstance(text, str) for text in (*texts.values(), *about)):
        raise ValueError(f"a finding of it cannot be understood: {row}")
    return AcceptedSubject(**texts, about=tuple(about))


def dumps(findings: Iterable[Finding]) -> str:
    """Return the text of a baseline that accepts these findings and nothing else."""
    accepted = sorted(Baseline.of(findings).accepted)
    rows = [{name: value for name, value in row._asdict().items() if value} for row in accepted]
    return json.dumps({"schema": SCHEMA, "findings": rows}, indent=1) + "\n"


def unused(baseline: Baseline, ignored: Iterable[Ignored]) -> list[AcceptedSubject]:
    """Return the rows of a baseline that accepted no subject: the problem was fixed."""
    met = Baseline.of(i.finding for i in ignored if i.reason == baseline.reason).rows
    return sorted(row for row in baseline.accepted if not any(map(row.accepts, met.get(row.identity, ()))))


def line(one: AcceptedSubject) -> str:
    """Write a row as a line of a message."""
    kind = " ".join((one.kind, *one.about)).strip()
    subject = ": ".join(filter(None, (one.file, one.item, one.library, kind, one.name)))
    return f"{one.code} {one.project}: {subject or 'the wheel as a whole'}"


def of_finding(finding: Finding) -> Iterator[AcceptedSubject]:
    """Yield a finding's subjects as a baseline has them."""
    project = finding.project or project_of(finding.wheel)
    for subject in finding.subjects or (Subject(),):
        entries = tuple(route.entry or route.package for route in subject.routes)
        for file, name in product(subject.needed_by or (subject.file,), subject.names or entries or ("",)):
            yield AcceptedSubject(
                finding.code,
                finding.severity,
                project,
                file=_unchanging(file),
                library=_unchanging(subject.library),
                item=_unchanging(_item(subject)),
                kind=subject.kind,
                about=tuple(map(_unchanging, subject.parts)),
                name=_unchanging(name),
            )


def _item(subject: Subject) -> str:
    """Return a subject's item as rows have it; a search path is "RUNPATH $ORIGIN", also if reports word it differently.

    It is "" for other values, whose fields are among the parts.
    """
    item = subject.item
    if isinstance(item, Route):
        return f"{item.kind} {item.entry}"
    return item if isinstance(item, str) else ""


def _unchanging(text: str) -> str:
    if text.endswith(".whl"):
        return project_of(text)
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return text
