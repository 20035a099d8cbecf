"""`gpuforge doctor` finds what is missing, with the way to get it, and makes the checks of a build."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuforge.cli import main
from gpuforge.errors import MissingError
from gpuforge.plan.site import ThisMachine

MANIFEST = """
schema = 1
[package]
name = "demo"
python = ["3.12"]
[build]
cuda = false
"""


@pytest.fixture(autouse=True)
def without_an_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path / "cache"))


def lacking(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    def missing(*_: object, **__: object) -> None:
        raise MissingError.of(f"no {what} here", hint=f"install {what}")

    monkeypatch.setattr(ThisMachine, "detect" if what == "g++" else "find", missing)


def checks(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    status = main.run(["doctor", *words, "--json"])
    return status, json.loads(capsys.readouterr().out)["checks"]


@pytest.mark.thorough
def test_without_a_compiler_no_build_is_possible(tmp_path, monkeypatch, capsys):
    lacking(monkeypatch, "g++")
    status, found = checks(capsys, str(tmp_path))
    assert status == 3
    assert {"no g++ here": "install g++"}.items() <= {c["text"]: c["hint"] for c in found}.items()


@pytest.mark.thorough
def test_an_engine_that_does_not_answer_does_not_stop_local_builds(tmp_path, capsys):
    _, found = checks(capsys, str(tmp_path))
    (engine,) = (check for check in found if check["topic"] == "builds in containers")
    assert engine["state"] == "optional"
    assert "no container engine answers" in engine["text"]
    assert engine["hint"]


def test_a_cell_that_cannot_be_built_is_named_with_its_lack(tmp_path, monkeypatch, capsys):
    (tmp_path / "gpuforge.toml").write_text(MANIFEST)
    lacking(monkeypatch, "CPython 3.12")
    status, found = checks(capsys, str(tmp_path))
    assert status == 3
    assert [c["hint"] for c in found if c["topic"].endswith("gpuforge.toml")] == ["install CPython 3.12"]


def test_a_wrong_manifest_is_told_with_its_place(tmp_path, capsys):
    (tmp_path / "gpuforge.toml").write_text(MANIFEST.replace("python", "pythons"))
    status, found = checks(capsys, str(tmp_path))
    assert status == 3
    assert any("gpuforge.toml:5" in check["text"] for check in found)
