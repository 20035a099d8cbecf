"""The file that a wheel's test leaves is read by its types: the project's own tests could write over it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from test_build_report import TEST

from gpuforge.cli.trial_result import read
from gpuforge.errors import ActionError


def test_a_result_is_read_and_shown_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(TEST))
    found = read(file)
    assert found.counts == {"passed": 12, "skipped": 1}
    assert found.as_data() == {key: value for key, value in TEST.items() if key not in {"schema", "cell"}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"packages": None}, "packages: Input should be a valid array"),
        ({"packages": [1]}, "packages.0: Input should be a valid string"),
        ({"import_seconds": "fast"}, "import_seconds: Input should be a valid number"),
        ({"import_seconds": float("nan")}, "import_seconds: Input should be "),
        ({"counts": {"passed": {}}}, "counts.passed: Input should be a valid integer"),
        ({"installs": [{"wheel": "x"}]}, "installs.0.python: Field required"),
        ({"cuda": {"machine": "mine", "loaded": []}}, "cuda.machine: Input should be 'none', 'hidden' or 'visible'"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
        ({"summary": "\ud800"}, "JSON: Invalid JSON: "),
    ],
)  # fmt: skip
def test_values_of_other_types_are_one_message(tmp_path: Path, change: dict[str, object], why: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps({**TEST, **change}))
    with pytest.raises(ActionError) as caught:
        read(file)
    (found,) = caught.value.diagnostics
    assert found.message.startswith(f"the result of a wheel's test cannot be used: {why}")


def _deep(file: Path) -> None:
    file.write_text("[" * 100_000)


def _large(file: Path) -> None:
    file.write_text(json.dumps({**TEST, "summary": "x" * 5_000_000}))


@pytest.mark.parametrize(
    "write",
    [os.mkfifo, Path.mkdir, lambda f: f.symlink_to("/dev/zero"), _deep, _large, lambda f: f.write_text("[]")],
)
def test_what_is_no_result_is_one_message(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write(tmp_path / "result.json")
    with pytest.raises(ActionError, match="the result of a wheel's test cannot be used: "):
        read(tmp_path / "result.json")
