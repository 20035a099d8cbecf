"""The file that a wheel's test leaves is read by its types: the project's own tests could write over it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from test_build_report import TEST

from gpuforge.errors import ActionError
from gpuforge.plan.trial_result import TrialResult

DATA = json.loads(TEST.model_dump_json())


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    TEST.write(file)
    assert TrialResult.read(file) == TEST


@pytest.mark.parametrize(
    ("part", "change", "why"),
    [
        ("installs", {"packages": None}, "installs.0.packages: Input should be a valid array"),
        ("installs", {"packages": ["demo 1.0"]}, "installs.0.packages.0: "),
        ("installs", {"packages": [["demo", 1]]}, "installs.0.packages.0.1: Input should be a valid string"),
        ("installs", {"import_seconds": "fast"}, "installs.0.import_seconds: Input should be a valid number"),
        ("installs", {"import_seconds": float("nan")}, "installs.0.import_seconds: Input should be "),
        ("ran", {"counts": {"passed": {}}}, "ran.counts.passed: Input should be a valid integer"),
        ("", {"installs": [{"extras": [], "wheel": "x"}]}, "installs.0.python: Field required"),
        ("", {"installs": []}, "installs: Tuple should have at least 1 item after validation, not 0"),
        ("installs", {"cuda": {"machine": "mine", "loaded": []}},
         "installs.0.cuda.machine: Input should be 'none', 'hidden' or 'visible'"),
        ("", {"more": 1}, "more: Extra inputs are not permitted"),
        ("ran", {"summary": "\ud800"}, "JSON: Invalid JSON: "),
    ],
)  # fmt: skip
def test_values_of_other_types_are_one_message(
    tmp_path: Path, part: str, change: dict[str, object], why: str
) -> None:
    file = tmp_path / "result.json"
    changed = {
        "": {**DATA, **change},
        "installs": {**DATA, "installs": [{**DATA["installs"][0], **change}]},
        "ran": {**DATA, "ran": {**DATA["ran"], **change}},
    }
    file.write_text(json.dumps(changed[part]))
    with pytest.raises(ActionError) as caught:
        TrialResult.read(file)
    (found,) = caught.value.diagnostics
    assert found.message.startswith(f"the result of a wheel's test cannot be used: {why}")


def _deep(file: Path) -> None:
    file.write_text("[" * 100_000)


def _large(file: Path) -> None:
    file.write_text(json.dumps({**DATA, "imports": ["x" * 5_000_000]}))


@pytest.mark.parametrize(
    "write",
    [os.mkfifo, Path.mkdir, lambda f: f.symlink_to("/dev/zero"), _deep, _large, lambda f: f.write_text("[]")],
)
def test_what_is_no_result_is_one_message(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write(tmp_path / "result.json")
    with pytest.raises(ActionError, match="the result of a wheel's test cannot be used: "):
        TrialResult.read(tmp_path / "result.json")
