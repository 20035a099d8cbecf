"""The audit as one pure call: paths of wheels in, a report out; nothing is printed, nothing is written."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.audit import graph as link
from gpuforge.audit import intent, proof, wheel
from gpuforge.audit.model import (
    NEEDED_BY,
    SEVERITIES,
    ElfObject,
    Finding,
    Ignored,
    MalformedError,
    Proof,
    Severity,
    WheelFacts,
)
from gpuforge.audit.rules import RULES
from gpuforge.diagnostics import Diagnostic, Place

if TYPE_CHECKING:  # loading pydantic takes longer than auditing a small wheel
    from gpuforge.manifest.load import ManifestFile


@dataclass(frozen=True, slots=True)
class Ignore:
    """Findings that are accepted: a rule's code, a pattern of files (`*` crosses folders), and the reason."""

    rule: str
    reason: str
    file: str = "*"

    def covers(self, finding: Finding) -> bool:
        """Say whether a finding is accepted; one with several files only when all of them are."""
        if self.rule != finding.code:
            return False
        return self.file == "*" or all(
            fnmatch.fnmatchcase(file, self.file) for file in finding.files or ("",)
        )


@dataclass(frozen=True, slots=True)
class WheelReport:
    """One wheel, what is wrong with it, and what was proved of it."""

    facts: WheelFacts
    findings: tuple[Finding, ...]
    ignored: tuple[Ignored, ...]
    proofs: tuple[Proof, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an audit. `problems` are inputs that could not be read at all."""

    wheels: tuple[WheelReport, ...]
    problems: tuple[Diagnostic, ...]
    graph: link.LinkGraph

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding that was not accepted, the worst of each wheel first."""
        return tuple(f for w in self.wheels for f in w.findings)

    @property
    def objects(self) -> tuple[ElfObject, ...]:
        """Every ELF object of every wheel."""
        return tuple(o for w in self.wheels for o in w.facts.objects)

    def worst(self) -> Severity | None:
        """Return the severity of the worst finding, or None without one."""
        found = {f.severity for f in self.findings}
        return next((s for s in SEVERITIES if s in found), None)


def audit(
    paths: Sequence[Path],
    *,
    manifest: ManifestFile | None = None,
    cuda: str | None = None,
    ignore: Iterable[Ignore] = (),
    jobs: int = 1,
) -> Report:
    """Audit wheels together: one may provide what another needs.

    With a manifest, what it promises is judged too: for the toolkit `cuda`, the key of its table, or for its
    only one. `jobs` processes read members at the same time. What cannot be read becomes a problem of the
    report, and the rest goes on. Raises UsageError for a `cuda` that the manifest does not have.
    """
    promised = intent.of(manifest, cuda) if manifest else None
    accepted = [*ignore]
    if manifest:
        accepted += [Ignore(i.rule, i.reason, i.file) for i in manifest.manifest.audit.ignore]
    facts: list[WheelFacts] = []
    problems: list[Diagnostic] = []
    with _pool(jobs) as pool:
        for path in paths:
            try:
                facts.append(wheel.read(path, pool))
            except MalformedError as error:
                problems += [Diagnostic(d.message, Place(str(path)), _HINT) for d in error.diagnostics]
            except OSError as error:
                problems.append(Diagnostic(error.strerror or str(error), Place(str(path)), "check the path"))
    graph = link.build(facts, promised)
    raw = [finding for rule in RULES for finding in rule.check(graph)]
    return Report(tuple(_report(graph, held, raw, accepted) for held in facts), tuple(problems), graph)


_HINT = "download or build it again; `python -m zipfile -t FILE` tests an archive"


@contextmanager
def _pool(jobs: int) -> Iterator[Executor | None]:
    if jobs <= 1:
        yield None
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield pool


def _report(
    graph: link.LinkGraph, held: WheelFacts, raw: Iterable[Finding], accepted: Sequence[Ignore]
) -> WheelReport:
    kept: list[Finding] = []
    ignored: list[Ignored] = []
    for finding in raw:
        if finding.wheel != held.name:
            continue
        reason = next((i.reason for i in accepted if i.covers(finding)), None)
        if reason is None:
            kept.append(finding)
        else:
            ignored.append(Ignored(finding, reason))
    findings = _by_cause(kept)
    return WheelReport(held, findings, tuple(ignored), proof.proofs(graph, held, findings))


def _by_cause(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Join findings that differ in files and subjects alone; the worst come first."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.code, finding.severity, finding.message, finding.remedy)
        groups.setdefault(key, []).append(finding)
    joined = [
        replace(
            group[0],
            files=tuple(dict.fromkeys(file for f in group for file in f.files)),
            subject=_by_library(subject for f in group for subject in f.subject),
        )
        for group in groups.values()
    ]
    return tuple(sorted(joined, key=lambda f: (SEVERITIES.index(f.severity), f.code)))


def _by_library(subjects: Iterable[str]) -> tuple[str, ...]:
    lines: dict[tuple[str, str], dict[str, None]] = {}
    for subject in subjects:
        library, needed_by, loader = subject.partition(NEEDED_BY)
        lines.setdefault((library, needed_by), {})[loader] = None
    return tuple(
        f"{library}{needed_by}{', '.join(loaders)}" for (library, needed_by), loaders in lines.items()
    )
