"""What every command does alike: empty paths, names that are nearly right, errors as JSON, and what is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from audit_samples import elf, wheel

from gpuforge.cli import main

BAD = "schema = 1\n[package]\nname = 5\n"
DIAGNOSTICS = [
    {
        "message": "the manifest has no table [cuda]",
        "file": "gpuforge.toml",
        "line": 1,
        "column": 1,
        "hint": 'write, for example, [cuda.13] with toolkit = "13.0" and archs = ["80", "90"]; for a package without '
        "CUDA write cuda = false in [build]",
    },
    {
        "message": "[package] needs `python`: the versions to build wheels for",
        "file": "gpuforge.toml",
        "line": 2,
        "column": 1,
        "hint": 'write, for example, python = ["3.11", "3.12"], or set `abi` if one wheel serves all versions',
    },
    {
        "message": "[package] name must be a string, not the number 5",
        "file": "gpuforge.toml",
        "line": 3,
        "column": 8,
        "hint": 'write name = "5"',
    },
]
# What takes long to load, and no list of commands needs.
SLOW = {"pydantic", "rich", "docker", "packaging", "tomli", "elftools", "requests", "platformdirs"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["build", "--json"],
        ["build", "--dry-run", "--json"],
        ["matrix", "--format", "json"],
        ["audit", "a.whl", "--manifest", "gpuforge.toml", "--format", "json"],
    ],
)
def test_who_asks_for_json_gets_the_errors_of_a_manifest_as_json(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gpuforge.toml").write_text(BAD)
    wheel(tmp_path, {"demo/a.so": elf()}).rename("a.whl")
    assert main.run(arguments) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"schema": 1, "status": 2, "diagnostics": DIAGNOSTICS}
    assert "error: gpuforge.toml:3:8: [package] name must be a string" in printed.err


def test_who_does_not_gets_them_in_words_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gpuforge.toml").write_text(BAD)
    assert main.run(["matrix"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", ""],
        ["audit", "", "--tree"],
        ["audit", ".", ""],
        ["build", ""],
        ["build", "-o", ""],
        ["matrix", ""],
    ],
)
def test_an_empty_path_is_an_error_and_not_this_folder(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wheel(tmp_path, {"demo/a.so": elf()})
    assert main.run(arguments) == 2
    printed = capsys.readouterr()
    assert (printed.out, "the path is empty" in printed.err) == ("", True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["biuld"], "No such command 'biuld'. Did you mean 'build'?"),
        (["Audits"], "No such command 'Audits'. Did you mean 'audit'?"),
        (
            ["frobnicate"],
            "No such command 'frobnicate'. There are audit, build, cache, images, init, matrix, schema.",
        ),
        (["images", "lst"], "No such command 'lst'. Did you mean 'list'?"),
    ],
)
def test_a_command_that_is_nearly_right_is_named(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == 2
    assert f"Error: {says}\n" in capsys.readouterr().err


def test_the_list_of_commands_imports_none_of_them() -> None:
    program = (
        "import sys; from gpuforge.cli import main; main.run(['--help'])\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    loaded = set(done.stderr.splitlines())
    assert not loaded & SLOW
    assert not loaded & {f"gpuforge.cli.{name}" for name in main.COMMANDS}
    for name in main.COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize(
    "arguments", [["build", "--json", "--jobs", "0"], ["audit", "--format", "json", "--nope"]]
)
def test_a_command_line_that_cannot_be_read_is_on_stderr_alone(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """As the README says: whether JSON was asked for is not known before the line is read."""
    assert main.run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Error: " in printed.err
