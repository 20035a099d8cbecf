"""Baselines: what was known is accepted in the next build too, and nothing that is new."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import test_audit_rules
import test_audit_rules_device
import test_audit_rules_platform
import test_audit_rules_processes
from audit_cases import findings

from gpuforge.audit import baseline
from gpuforge.audit.findings import Finding, Ignored, Subject
from gpuforge.errors import UsageError

WHEEL = "demo_pkg-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
FINDING = Finding(
    "GF201",
    "warning",
    WHEEL,
    ("demo/ext.cpython-311-x86_64-linux-gnu.so",),
    (
        Subject(
            library="libx-0123abcd.so.1",
            detail="who knows",
            needed_by=("demo/ext.cpython-311-x86_64-linux-gnu.so", "demo/b.so"),
        ),
    ),
    "nobody has it",
    "bring it",
)


def needed(library: str, file: str) -> Subject:
    return Subject(library=library, needed_by=(file,))


def known(*findings: Finding) -> baseline.Baseline:
    return baseline.Baseline(frozenset(k for f in findings for k in baseline.of_finding(f)))


def test_a_file_of_it(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(baseline.dumps([FINDING, FINDING]))
    assert json.loads(path.read_text()) == {
        "schema": 2,
        "findings": [
            {
                "code": "GF201",
                "severity": "warning",
                "project": "demo-pkg",
                "file": file,
                "library": "libx-*.so.1",
            }
            for file in ("demo/b.so", "demo/ext.cpython-*-x86_64-linux-gnu.so")
        ],
    }
    assert baseline.read(path) == known(FINDING)


@pytest.mark.parametrize(
    "change",
    [
        {"wheel": "demo_pkg-1.1-cp313-cp313-manylinux_2_28_x86_64.whl"},
        {"wheel": "dist/" + WHEEL},
        {"severity": "info"},
        {"message": "worded otherwise"},
        {"subjects": (needed("libx-99999999.so.1", "demo/ext.cpython-313-x86_64-linux-gnu.so"),)},
        {"subjects": (FINDING.subjects[0]._replace(detail="worded otherwise"),)},
    ],
)
def test_the_same_finding_of_another_build_is_known(change: dict[str, object]) -> None:
    assert known(FINDING).covers(FINDING._replace(**change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"code": "GF202"},
        {"severity": "error"},
        {"wheel": "other-1.0-py3-none-any.whl"},
        {"subjects": (*FINDING.subjects, needed("liby.so", "demo/b.so"))},
        {"subjects": (needed("libx-0123abcd.so.1", "demo/c.so"),)},
        {"subjects": (needed("libx-0123abcd.so.2", "demo/b.so"),)},
        {"subjects": (FINDING.subjects[0]._replace(item="RUNPATH $ORIGIN"),)},
    ],
)
def test_a_new_finding_is_not(change: dict[str, object]) -> None:
    assert not known(FINDING).covers(FINDING._replace(**change))  # type: ignore[arg-type]


def test_what_was_mended_is_told() -> None:
    held = known(FINDING, FINDING._replace(code="GF302", subjects=(Subject("demo/a.so"),)))
    assert [str(k) for k in baseline.unused(held, [Ignored(FINDING, held.reason)])] == [
        "GF302 demo-pkg: demo/a.so"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is not a baseline: Expecting property name"),
        ("[]", "it is not a baseline: its schema is not 2"),
        ("{}", "it is not a baseline: it has no 'schema'"),
        ('{"schema": 3, "findings": []}', "it is not a baseline: its schema is not 2"),
        ('{"schema": 1}', "it is not a baseline: it has no 'findings'"),
        ('{"schema": 1, "findings": [{"code": "GF101"}]}', "it is not a baseline: it has no 'severity'"),
        ('{"schema": 1, "findings": [7]}', "it is not a baseline: 'int' object is not subscriptable"),
        (
            '{"schema": 1, "findings": [{"code": "GF101", "severity": "x", "project": "", "subject": ""}]}',
            "it is not a baseline: a finding of it cannot be understood",
        ),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        baseline.read(path)
    (problem,) = error.value.diagnostics
    assert problem.message.startswith(said)
    assert problem.place is not None
    assert problem.place.file == str(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        baseline.read(tmp_path / "none.json")
    (said,) = raised.value.diagnostics
    assert said.message == "the baseline cannot be read: No such file or directory"
    assert said.hint == "--write-baseline writes one"


OLD = json.loads((Path(__file__).parents[1] / "data/baselines_of_schema_1.json").read_text())
CASES = {
    name: case
    for module in (
        test_audit_rules,
        test_audit_rules_device,
        test_audit_rules_platform,
        test_audit_rules_processes,
    )
    for name, case in module.CASES.items()
}


@pytest.mark.parametrize("name", OLD)
def test_a_baseline_of_schema_1_still_accepts_its_findings(name: str, tmp_path: Path) -> None:
    """The rows are as --write-baseline wrote them for these wheels when a row had a sentence."""
    keys = ("code", "severity", "project", "subject")
    rows = [dict(zip(keys, row, strict=True)) for row in OLD[name]]
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({"schema": 1, "findings": rows}))
    held = baseline.read(path)
    found = findings(CASES[name], CASES[name].files, tmp_path)
    assert found
    assert all(held.covers(finding) for finding in found)
    assert baseline.unused(held, [Ignored(finding, held.reason) for finding in found]) == []


def test_a_baseline_of_schema_1_accepts_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    row = {"code": "GF201", "severity": "warning", "project": "demo-pkg"}
    subjects = [
        "libx-*.so.1, NEEDED by demo/b.so",
        "libx-*.so.1, NEEDED by demo/ext.cpython-*-x86_64-linux-gnu.so",
    ]
    path.write_text(json.dumps({"schema": 1, "findings": [{**row, "subject": s} for s in subjects]}))
    held = baseline.read(path)
    assert held.covers(FINDING)
    for subject in (
        needed("libx-0123abcd.so.1", "demo/c.so"),
        needed("libx-0123abcd.so.1", "other/demo/b.so"),
        needed("libx-0123abcd.so.12", "demo/b.so"),
        needed("liby.so.1", "demo/b.so"),
    ):
        assert not held.covers(FINDING._replace(subjects=(subject,)))
