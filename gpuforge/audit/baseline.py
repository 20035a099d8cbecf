"""Accepts the known findings that a file lists; all others stay findings.

A finding is identified by its rule, its severity, the project and the fields of its subjects: file, library, item,
kind, what it is about, and each of its names. Parts that change from build to build are written `*`: the hash in a
grafted library's name, the Python in an extension's name, the version in a wheel's name. A finding that became more
severe is a new one. Files of older schemas are still read (docs/decisions/0029-baselines-by-fields.md).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Protocol, Self

from gpuforge.audit import phrases
from gpuforge.audit.findings import SEVERITIES, Finding, Ignored, Severity, Subject
from gpuforge.audit.model import project_of
from gpuforge.audit.route import Route
from gpuforge.cuda import sonames
from gpuforge.diagnostics import Place
from gpuforge.errors import UsageError

SCHEMA = 7
REASON = "in the baseline"
_CHANGING = (
    (sonames.GRAFT_HASH, "*"),
    (re.compile(r"\bcpython-3\d+(?=-)"), "cpython-*"),
    (re.compile(r"\bcp3\d+-cp3\d+t?-"), "*-"),
)
_PLACE = ("file", "library", "item")
_FIELDS = (*_PLACE, "kind", "about", "name")
_WITH_NAMES_SINCE_6 = {"GF212", "GF215", "GF216"}


@dataclass(frozen=True, slots=True, order=True)
class AcceptedSubject:
    """One accepted subject of a finding."""

    code: str
    severity: Severity
    project: str
    file: str = ""
    library: str = ""
    item: str = ""
    kind: str = ""
    about: tuple[str, ...] = ()
    name: str = ""  # one of the subject's names
    sentence: str = ""  # in a file of schema 1, instead of these five
    provider: str = field(
        default="", compare=False
    )  # a provider that such a sentence may name instead of the library
    label: str = field(
        default="", compare=False
    )  # the project by the wheel's name in reports, as until schema 6
    schema: int = field(default=SCHEMA, compare=False)  # of the file

    def of_schema(self, schema: int) -> Self:
        """Return it as a file of that schema has it; fingerprints and messages have it as in schema 3."""
        one = self
        if schema < 7 <= self.schema:
            library, kind = phrases.of_schema_6(one.code, one.library, one.kind)
            one = replace(one, library=library, kind=kind)
        if schema < 5 <= self.schema:
            item, kind, about = phrases.of_schema_4(one.code, one.item, one.kind, one.about)
            one = replace(one, item=item, kind=kind, about=about)
        if schema < 4 <= self.schema:
            one = replace(one, kind=phrases.of_schema_3(one.code, one.kind, one.about), about=())
        return one

    @property
    def projects(self) -> set[str]:
        """The projects that rows for it have."""
        return {self.project, self.label or self.project}

    def accepts(self, other: AcceptedSubject) -> bool:
        """Return whether this row of a file accepts a subject of the same rule."""
        if self.project != other.project and (self.schema > 6 or self.project != other.label):
            return False
        if SEVERITIES.index(other.severity) < SEVERITIES.index(self.severity):
            return False
        other = other.of_schema(self.schema)
        if self.schema < 6 and self.code in _WITH_NAMES_SINCE_6:
            other = replace(other, name="")
        if self.schema > 1:
            place = any(getattr(self, name) for name in _PLACE)
            fields = _PLACE if self.schema == 2 and place else _FIELDS
            return all(getattr(self, name) == getattr(other, name) for name in fields)
        if other.provider and f"the one of {other.provider}," in self.sentence:
            return True
        return all(_names(self.sentence, getattr(other, name)) for name in (*_PLACE, "name"))


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
            any(
                row.accepts(one)
                for project in one.projects
                for row in self._rows.get((one.code, project), ())
            )
            for one in of_finding(finding)
        )

    @cached_property
    def _rows(self) -> Mapping[tuple[str, str], list[AcceptedSubject]]:
        rows: dict[tuple[str, str], list[AcceptedSubject]] = {}
        for row in self.accepted:
            rows.setdefault((row.code, row.project), []).append(row)
        return rows


class Acceptance(Protocol):
    """The accepted findings, with the reasons."""

    @property
    def reason(self) -> str:
        """Why they are accepted."""

    def covers(self, finding: Finding) -> bool:
        """Return whether it accepts a finding."""


def read(path: Path) -> Baseline:
    """Read a baseline of this schema or an older one. Raises UsageError for a file that is not one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data["schema"] not in range(1, SCHEMA + 1):
            raise ValueError(f"its schema is not {SCHEMA}")
        return Baseline(frozenset(_row(row, data["schema"]) for row in data["findings"]))
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


def _row(row: dict[str, Any], schema: int) -> AcceptedSubject:
    texts = {key: row[key] for key in ("code", "severity", "project")}
    if schema == 1:
        texts["sentence"] = row["subject"]
    else:
        texts |= {name: row.get(name, "") for name in _FIELDS if name != "about"}
    about = row.get("about", [])
    if (
        not isinstance(about, list)
        or not all(isinstance(text, str) for text in (*texts.values(), *about))
        or row["severity"] not in SEVERITIES
    ):
        raise ValueError(f"a finding of it cannot be understood: {row}")
    # older files have the hash that auditwheel puts before another part of the name
    texts = {name: sonames.GRAFT_HASH.sub("*", text) for name, text in texts.items()}
    return AcceptedSubject(**texts, about=tuple(about), schema=schema)


def dumps(findings: Iterable[Finding]) -> str:
    """Return the text of a baseline that accepts these findings and nothing else."""
    accepted = sorted(Baseline.of(findings).accepted)
    rows = [
        {"code": k.code, "severity": k.severity, "project": k.project}
        | {name: value for name in _FIELDS if (value := getattr(k, name))}
        for k in accepted
    ]
    return json.dumps({"schema": SCHEMA, "findings": rows}, indent=1) + "\n"


def unused(baseline: Baseline, ignored: Iterable[Ignored]) -> list[AcceptedSubject]:
    """Return the rows of a baseline that accepted no subject: the problem was fixed."""
    met = {one for i in ignored if i.reason == baseline.reason for one in of_finding(i.finding)}
    of_rule: dict[tuple[str, str], list[AcceptedSubject]] = {}
    for one in met:
        for project in one.projects:
            of_rule.setdefault((one.code, project), []).append(one)
    return sorted(
        row
        for row in baseline.accepted
        if not any(row.accepts(one) for one in of_rule.get((row.code, row.project), ()))
    )


def line(one: AcceptedSubject) -> str:
    """Write a subject as a line of a message, and for fingerprints."""
    old = one.of_schema(3)
    subject = one.sentence or ": ".join(filter(None, (old.file, old.item, old.library, old.kind, old.name)))
    return f"{one.code} {one.project}: {subject or 'the wheel as a whole'}"


def of_finding(finding: Finding) -> Iterator[AcceptedSubject]:
    """Yield a finding's subjects as a baseline has them."""
    label = project_of(finding.wheel)
    for subject in finding.subjects or (Subject(),):
        entries = tuple(route.entry or route.package for route in subject.routes)
        for place, name in product(subject.needed_by or (subject.file,), subject.names or entries or ("",)):
            yield AcceptedSubject(
                finding.code,
                finding.severity,
                finding.project or label,
                file=_unchanging(place),
                library=_unchanging(subject.library),
                item=_unchanging(_item(subject)),
                kind=subject.kind,
                about=tuple(map(_unchanging, subject.parts)),
                name=_unchanging(name),
                provider=subject.provider,
                label=label,
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


def _names(sentence: str, name: str) -> bool:
    """Return whether a sentence of schema 1 contains a name, or the last part of a path, as a separate word."""
    words = (rf"(?<![\w./@+-]){re.escape(n)}(?![\w/@+]|\.\w)" for n in (name, posixpath.basename(name)))
    return not name or any(re.search(word, sentence) for word in words)
