"""Joins findings of one cause, and subjects that differ only in the files that need or load them."""

from __future__ import annotations

from collections.abc import Iterable

from gpuforge.audit.findings import SEVERITIES, Finding, Subject


def by_cause(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Join findings of one rule, severity and cause, which differ in files and subjects; the worst come first."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.code, finding.severity, finding.cause, finding.across)
        groups.setdefault(key, []).append(finding)
    joined = [
        group[0]._replace(
            files=tuple(dict.fromkeys(file for f in group for file in f.files)),
            subjects=join(subject for f in group for subject in f.subjects),
            commands=tuple(dict.fromkeys(command for f in group for command in f.commands)),
        )
        for group in groups.values()
    ]
    return tuple(sorted(joined, key=lambda f: (SEVERITIES.index(f.severity), f.code)))


def join(subjects: Iterable[Subject]) -> tuple[Subject, ...]:
    """Join the subjects that differ only in the files that need, load or import them, in the order of the first."""
    needed: dict[Subject, dict[str, None]] = {}
    loaded: dict[Subject, dict[str, None]] = {}
    imported: dict[Subject, dict[str, None]] = {}
    for subject in subjects:
        same = subject._replace(needed_by=(), loaded_by=(), imported_by=())
        needed.setdefault(same, {}).update(dict.fromkeys(subject.needed_by))
        loaded.setdefault(same, {}).update(dict.fromkeys(subject.loaded_by))
        imported.setdefault(same, {}).update(dict.fromkeys(subject.imported_by))
    return tuple(
        s._replace(needed_by=tuple(needed[s]), loaded_by=tuple(loaded[s]), imported_by=tuple(imported[s]))
        for s in needed
    )
