"""Every failure becomes a message on stderr and the exit status of the contract; no traceback reaches a user."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from audit_samples import elf, wheel

from gpuforge.cli import main
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import ActionError, MissingError, UsageError

CLEAN = "clean-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
NO_ROOM = (
    "  hint: free some space (`df -h` shows which disk is full), or use another disk: --output, GPUFORGE_CACHE_DIR "
    "and GPUFORGE_WORK name the folders that are "
    "written; finished work is kept\n"
)


@pytest.mark.parametrize(
    ("problem", "status", "says"),
    [
        (UsageError.of("no", hint="yes", place=Place("f", 1, 2)), 2, "error: f:1:2: no\n  hint: yes\n"),
        (MissingError.of("no g++"), 3, "error: no g++\n"),
        (ActionError(Diagnostic("one"), Diagnostic("two")), 1, "error: one\nerror: two\n2 errors\n"),
        (KeyboardInterrupt(), 130, "interrupted; finished work is kept\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x"),
            3,
            f"error: /x: No space left on device\n{NO_ROOM}",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),  # while it was written to
            3,
            f"error: the disk is full\n{NO_ROOM}",
        ),
        (  # of a copy, the target: there is no room where it goes
            OSError(errno.ENOSPC, "No space left on device", "/cache/x", None, "/dist/x"),
            3,
            f"error: /dist/x: No space left on device\n{NO_ROOM}",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/x"),
            2,
            "error: /x: Permission denied\n  hint: check who may write there\n",
        ),
        (
            RuntimeError("oops"),
            70,
            "error: gpuforge itself failed: RuntimeError: oops\n"
            "  hint: this is a bug; run again with GPUFORGE_DEBUG=1 and report what it prints\n",
        ),
    ],
)
def test_how_a_call_ends(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: BaseException,
    status: int,
    says: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.delenv("GPUFORGE_DEBUG", raising=False)
    monkeypatch.setattr(main.cli, "main", fail)
    assert (main.run([]), capsys.readouterr().err) == (status, says)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["audit", CLEAN], 0),
        (["audit", CLEAN, "--format", "json"], 0),
        (["audit", "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"], 1),
        (["schema"], 141),
        (["--help"], 141),
    ],
)
def test_when_nobody_reads_the_output_the_audit_ends_as_it_would_and_others_as_by_sigpipe(
    arguments: list[str], status: int, tmp_path: Path
) -> None:
    wheel(tmp_path, {"demo/a.so": elf()}, name=CLEAN)
    wheel(tmp_path, {"demo/a.so": elf(versions={"libc.so.6": ["GLIBC_2.99"]})})
    reader, writer = os.pipe()
    os.close(reader)
    program = "from gpuforge.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=False,
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (status, b"")


@pytest.mark.thorough
@pytest.mark.parametrize("options", [[], ["--fail-on", "error"]])
def test_when_nobody_reads_the_messages_the_status_is_the_same(options: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = "from gpuforge.cli.main import main; main()"
    command = [sys.executable, "-c", program, "audit", "missing.whl", *options]
    done = subprocess.run(command, check=False, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.thorough
def test_python_can_run_the_package_as_the_program() -> None:
    ran = [
        subprocess.run([*program, "audit", "missing.whl"], check=False, capture_output=True, text=True)
        for program in ([sys.executable, "-m", "gpuforge"], [Path(sys.executable).with_name("gpuforge")])
    ]
    assert ran[0].returncode == ran[1].returncode == 2
    assert ran[0].stderr == ran[1].stderr != ""


def test_who_has_closed_the_output_gets_the_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main.run(["audit", str(wheel(tmp_path, {"demo/a.so": elf()}))]) == 0


def test_a_second_interrupt_has_the_status_of_the_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "run", interrupt)
    with pytest.raises(SystemExit, match="130"):
        main.main()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bild"], "No such command 'bild'"),
        (["build", "--pithon", "3.12"], "No such option '--pithon'. Did you mean '--python'?"),
        (["build", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["matrix", "--format", "xml"], "Invalid value for '--format'"),
        (["audit", "x.whl", "--python", "3.12"], "--python is only for --with"),
        (["audit", "--with", "x", "--python", "3"], "--python 3: expected a version such as 3.12"),
        (
            ["build", "--scheduler", "tcp://x:1", "."],
            "--scheduler is not for --runner local\n  hint: add --runner dask",
        ),
        (
            ["build", "--memory", "1GB", "--image", "x", "."],
            "--image and --memory are not for --runner local\n  hint: add --runner docker or --runner dask",
        ),
    ],
)
def test_a_wrong_call_exits_2(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert main.run(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert says in output.err


@pytest.mark.parametrize("command", [[], *([name] for name in main.COMMANDS)])
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert main.run([*command, "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: gpuforge")


@pytest.mark.parametrize(
    "options", [["--jobs"], ["--jobs", "0", "a.whl"], ["--jobs", "1"], ["--jobs", "x", "a.whl"]]
)
def test_an_invalid_number_of_jobs_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main.run(["audit", *options]) == 2
    assert "Error: " in capsys.readouterr().err
