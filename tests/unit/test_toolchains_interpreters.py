"""Where CPython interpreters are found on a machine, and what a build without one of them ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plan_samples import LoadRecipe

from gpuforge.cli.main import run
from gpuforge.errors import MissingError
from gpuforge.plan import site
from gpuforge.toolchains import cpython
from gpuforge.toolchains.cpython import Interpreter


def install(path: Path, version: str, *, headers: bool = True) -> Path:
    """Write a program that answers as an interpreter of this version."""
    facts = {"implementation": "CPython", "version": version, "abi": "", "executable": str(path)}
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{json.dumps({**facts, 'headers': headers, 'zlib': '1.3'})}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("variable", "place"),
    [
        ("PYENV_ROOT", "versions/3.41.2/bin/python3.41"),
        ("UV_PYTHON_INSTALL_DIR", "cpython-3.41.2-linux-x86_64-gnu/bin/python3.41"),
        ("XDG_DATA_HOME", "uv/python/cpython-3.41.2-linux-x86_64-gnu/bin/python3.41"),
    ],
)
def test_pythons_that_a_tool_keeps_for_itself_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, place: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    path = install(tmp_path / place, "3.41.2")
    assert cpython.find("3.41").path == path
    with pytest.raises(MissingError, match=r"no CPython 3\.42 on this machine"):
        cpython.find("3.42")


def test_the_slow_scripts_that_pyenv_has_on_path_are_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    install(tmp_path / "shims/python3.41", "3.41.1")
    path = install(tmp_path / "versions/3.41.2/bin/python3.41", "3.41.2")
    assert cpython.find("3.41").path == path


def test_a_build_that_leaves_cells_out_ends_with_status_3_unless_that_is_allowed(
    recipe: LoadRecipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def find(minor: str, *, or_newer: bool = False) -> Interpreter:
        if minor != "3.11":
            raise MissingError.of(f"no CPython {minor} on this machine", hint="install it")
        return Interpreter(Path("/python3.11"), "3.11.9", "cpython-311", headers=True)

    monkeypatch.setattr(site.cpython, "find", find)
    monkeypatch.setattr("gpuforge.cli.build.machine_type", lambda: "x86_64")
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path / "cache"))
    build = ["build", str(recipe().folder), "--cuda", "13", "--dry-run"]
    assert run(build) == 3
    out, err = capsys.readouterr()
    assert out.startswith("1 cell\n  cp311-cu13.0-x86_64: ")
    assert out.endswith("left out: cp313-cu13.0-x86_64: no CPython 3.13 on this machine\n")
    assert err == (
        "hint: install it\n"
        "1 cell is left out, so the exit status is 3; --python 3.11, or --allow-missing, makes it 0\n"
    )
    assert run([*build, "--allow-missing"]) == 0
    assert run([*build, "--python", "3.11"]) == 0  # only what was wanted counts
