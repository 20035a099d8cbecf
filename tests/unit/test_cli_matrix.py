"""`gpuforge matrix`: whole outputs, in every format."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuforge.cli.main import run
from gpuforge.manifest.load import ManifestFile

GOLDEN = Path(__file__).parents[1] / "golden" / "matrix"
Recipe = Callable[..., ManifestFile]


@pytest.fixture(autouse=True)
def _one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuforge.cli.matrix.machine_type", lambda: "x86_64")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("form", ["table", "github", "gitlab", "json"])
def test_output(
    recipe: Recipe, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(recipe().folder.parent)
    assert run(["matrix", "recipe", "--cuda", "13", "--format", form]) == 0
    output = capsys.readouterr()
    found = f"{output.out}--- stderr\n{output.err}"
    golden = GOLDEN / f"{form}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(found)
    assert found == golden.read_text()


def test_github_reads_one_line_of_json(recipe: Recipe, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matrix", str(recipe().folder), "--format", "github"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    jobs = json.loads(line)["include"]
    assert [job["cell"] for job in jobs] == [
        f"cp{python}-cu{cuda}-x86_64" for cuda in ("12.4", "13.0") for python in (311, 313)
    ]
    assert all(job["build"] == f"gpuforge build {recipe().folder} --cell {job['cell']}" for job in jobs)


def test_more_jobs_than_github_runs_is_said(recipe: Recipe, capsys: pytest.CaptureFixture[str]) -> None:
    many = ", ".join(f'"3.{minor}"' for minor in range(8, 100))
    file = recipe(
        ('python = ["3.11", "3.13"]', f"python = [{many}]"), add='[wheel]\nnaming = ["suffix", "plain"]\n'
    )
    assert run(["matrix", str(file.folder), "--format", "github"]) == 0
    assert "warning: 368 jobs, but github runs at most 256 of one matrix" in capsys.readouterr().err
