"""SARIF 2.1.0: what the standard and GitHub's code scanning demand, and the results whole."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from audit_reports import BAD, hold, sample

from gpuforge.audit import audit
from gpuforge.audit.findings import Subject
from gpuforge.audit.report import sarif
from gpuforge.audit.rules import RULES

LEVELS = {"none", "note", "warning", "error"}


def test_the_results() -> None:
    (run,) = sarif.as_log(sample())["runs"]
    for result in run["results"]:
        del result["ruleIndex"]  # of rules that come and go; another test looks at it
    hold("report.sarif.json", json.dumps({k: run[k] for k in ("invocations", "results")}, indent=2) + "\n")


def test_the_log_and_its_tool() -> None:
    log = json.loads(sarif.dumps(sample()))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    driver = log["runs"][0]["tool"]["driver"]
    assert driver["name"] == "gpuforge"
    assert re.fullmatch(r"\d+\.\d+.*", driver["version"])
    assert len(json.dumps(log)) < 10 << 20  # what GitHub takes


def test_the_types_and_choices_of_the_standard() -> None:
    models = pytest.importorskip("sarif_pydantic", reason="sarif-pydantic is not installed")
    log = models.Sarif.model_validate(sarif.as_log(sample()))
    assert len(log.runs[0].results) == 4


def test_each_rule_has_its_page() -> None:
    rules = sarif.as_log(sample())["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in RULES]
    for rule in rules:
        assert re.fullmatch(r"[A-Z]\w+", rule["name"])
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"].endswith(".")
        assert len(rule["fullDescription"]["text"]) < 1024
        assert rule["help"]["markdown"]
        assert "**" not in rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in LEVELS
    assert rules[0]["name"] == "RuntimesHashed"
    assert "\n\n**Fix:** Use only" in rules[0]["help"]["markdown"]
    assert "\n\nFix: Use only" in rules[0]["help"]["text"]


def test_every_result_says_which_rule_where_and_whether_it_was_accepted() -> None:
    (run,) = sarif.as_log(sample())["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [len(r["suppressions"]) for r in run["results"]] == [0, 0, 0, 1]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in LEVELS
        assert result["message"]["text"]
        for location in result["locations"]:
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"[!-~]+", uri)
            assert unquote(uri).startswith(BAD)
            assert location["physicalLocation"]["region"]["startLine"] == 1
        (fingerprint,) = result["partialFingerprints"].values()
        assert re.fullmatch(r"[0-9a-f]{64}", fingerprint)


def test_the_same_cause_keeps_its_fingerprint_in_the_next_build() -> None:
    first = sample()
    held, *_ = first.wheels
    finding, *others = held.findings
    changed, *same = finding.subjects
    changed = changed._replace(file=changed.file.replace("fb1a2b9f", "00112233"))
    renamed = finding._replace(subjects=(changed, *same), wheel=finding.wheel.replace("1.0", "1.1"))
    assert renamed != finding
    second = first._replace(wheels=(held._replace(findings=(renamed, *others)),))
    one, two = (sarif.as_log(r)["runs"][0]["results"][0]["partialFingerprints"] for r in (first, second))
    assert one == two


def test_without_accepted_findings_no_result_speaks_of_it() -> None:
    report = sample()
    report = report._replace(wheels=tuple(held._replace(ignored=()) for held in report.wheels))
    assert all("suppressions" not in r for r in sarif.as_log(report)["runs"][0]["results"])


def test_no_result_has_more_places_than_github_takes() -> None:
    report = sample()
    held = report.wheels[0]
    many = tuple(f"bad/{n}.so" for n in range(1500))
    finding = held.findings[0]._replace(
        files=many, subjects=tuple(Subject(file, detail=file) for file in many)
    )
    (run,) = sarif.as_log(report._replace(wheels=(held._replace(findings=(finding,)),)))["runs"]
    result = run["results"][0]
    assert len(result["locations"]) == 1000
    assert result["message"]["text"].split("\n")[-2] == "- and 1,470 more (--format json lists all)"


def test_a_name_is_no_link_in_a_message(tmp_path: Path) -> None:
    names = ["[x](http://example.org)", "[x\\](http://example.org)", "[x\\\\](http://example.org)"]
    report = audit([tmp_path / f"{name.replace('/', '')}.whl" for name in names])
    (run,) = sarif.as_log(report)["runs"]
    texts = [each["message"]["text"] for each in run["invocations"][0]["toolExecutionNotifications"]]
    assert len(texts) == len(names)
    assert not [text for text in texts if "](" in text]
