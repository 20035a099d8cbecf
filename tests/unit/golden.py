"""Golden files: what is printed, whole. UPDATE_GOLDEN=1 writes them instead; then read the diff."""

import os
from collections.abc import Iterable
from pathlib import Path

from gpuforge.audit.findings import Finding
from gpuforge.audit.report.sentences import lines

FOLDER = Path(__file__).parents[1] / "golden"


def hold(name: str, found: str) -> None:
    """Compare a text with a golden file, `name` below tests/golden."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()


def finding_text(finding: Finding) -> str:
    """Return all that a finding says, one field a line."""
    subjects = "".join(f"  {line}\n" for line in lines(finding))
    commands = "".join(f"  {command}\n" for command in finding.commands)
    return f"{finding.severity}: {finding.message}\n{subjects}fix: {finding.fix}\n{commands}"


# the words for problems: names, versions, architectures and paths are in other fields
KINDS = frozenset(
    """
    bare name|other major|static C++
    |ABI|CUDA release|GPU code|align|HPC SDK|RECORD|RPATH|RUNPATH|Requires-Dist|Root-Is-Purelib|calls|differs|end|entry
    |file name|folder|for any Python|hash|hidden|interface|machine|made by|missing|more|name|needs|newer|no file|no hash
    |no library|no name|no path|no version|nodefaultlib|nodlopen|not declared|not listed|not stable|nvcc|option|outside
    |overlap|package|packages|page|place|power|program|requires|schema|several .dist-info folders|shared files|size
    |static libcudart|strings|system|twice|unreadable|version|wants
    |code|far|unwritable|value|count|type|target
    |apart|empty|function|large|left out|none|not executable|not in TLS|not mapped|sealed|symbol
    """.replace("\n    ", "").split("|")
)
WHOLE_WHEEL = {"GF401", "GF708", "GF714"}  # what these find may be true of a wheel as a whole


def hold_identity(finding: Finding) -> None:
    """Fail unless fields, and not words alone, tell each subject from the others and from the wheel as a whole."""
    known = [(s.file, s.library, s.item, s.kind, s.about, s.names, s.needed_by) for s in finding.subjects]
    assert all(map(any, known)) or finding.code in WHOLE_WHEEL
    assert len(known) == len(set(known)) > 0
    assert {s.kind for s in finding.subjects} <= KINDS | {""}


def hold_findings(code: str, findings: Iterable[tuple[str, Finding]]) -> None:
    """Compare what a rule says, in each of the named cases, with its golden file, and hold what identifies it."""
    findings = list(findings)
    for _, found in findings:
        hold_identity(found)
    hold(f"findings/{code}.txt", "\n".join(f"# {case}\n{finding_text(found)}" for case, found in findings))
