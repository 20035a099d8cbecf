"""Every failure becomes a message on stderr and the exit status of the contract; no traceback reaches a user."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from audit_samples import elf, wheel
from image_samples import without_engine

from gpuforge import disk
from gpuforge.cli import folders, main
from gpuforge.cli.dist import put
from gpuforge.cli.main import run
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import ActionError, MissingError, UsageError
from gpuforge.manifest.load import ManifestFile

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
        (KeyboardInterrupt(), 130, "interrupted\n"),
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
def test_how_a_call_ends(monkeypatch, capsys, problem, status, says):
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
    arguments, status, tmp_path
):
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
def test_when_nobody_reads_the_messages_the_status_is_the_same(options, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    program = "from gpuforge.cli.main import main; main()"
    command = [sys.executable, "-c", program, "audit", "missing.whl", *options]
    done = subprocess.run(command, check=False, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.thorough
def test_python_can_run_the_package_as_the_program():
    ran = [
        subprocess.run([*program, "audit", "missing.whl"], check=False, capture_output=True, text=True)
        for program in ([sys.executable, "-m", "gpuforge"], [Path(sys.executable).with_name("gpuforge")])
    ]
    assert ran[0].returncode == ran[1].returncode == 2
    assert ran[0].stderr == ran[1].stderr != ""


def test_who_has_closed_the_output_gets_the_status(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main.run(["audit", str(wheel(tmp_path, {"demo/a.so": elf()}))]) == 0


def test_a_second_interrupt_has_the_status_of_the_first(monkeypatch, capsys):
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
        (["biuld"], "Error: No such command 'biuld'. Did you mean 'build'?\n"),
        (["Audits"], "Error: No such command 'Audits'. Did you mean 'audit'?\n"),
        (["frobnicate"], f"Error: No such command 'frobnicate'. There are {', '.join(main.COMMANDS)}.\n"),
        (["images", "lst"], "Error: No such command 'lst'. Did you mean 'list'?\n"),
        (["build", "--pithon", "3.12"], "No such option '--pithon'. Did you mean '--python'?"),
        (["build", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["audit", "--jobs"], "Error: "),
        (["audit", "--jobs", "0", "a.whl"], "Error: "),
        (["audit", "--jobs", "1"], "Error: "),
        (["audit", "--jobs", "x", "a.whl"], "Error: "),
        # Whether JSON was asked for is not known before the line is read: the README says so.
        (["build", "--json", "--jobs", "0"], "Error: "),
        (["audit", "--format", "json", "--nope"], "Error: "),
        (["matrix", "--format", "xml"], "Invalid value for '--format'"),
        (["audit", "x.whl", "--python", "3.12"], "--python is only for --with"),
        (["audit", "--with", "x", "--python", "3"], "--python 3: expected a version such as 3.12"),
        (
            ["build", "--scheduler", "tcp://x:1", "."],
            "--scheduler is not for --runner local\n  hint: add --runner dask",
        ),
        (
            ["build", "--image", "x", "--scheduler", "tcp://x:1", "."],
            "--image and --scheduler are not for --runner local\n  hint: add --runner dask",
        ),
    ],
)
def test_a_wrong_call_exits_2(capsys, arguments, says):
    assert main.run(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert says in output.err


@pytest.mark.parametrize("command", [[], *([name] for name in main.COMMANDS)])
def test_every_command_has_help(capsys, command):
    assert main.run([*command, "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: gpuforge")


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
        "hint": 'write, for example, name = "cufinufft"',
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
def test_who_asks_for_json_gets_the_errors_of_a_manifest_as_json(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("gpuforge.toml").write_text(BAD)
    wheel(tmp_path, {"demo/a.so": elf()}).rename("a.whl")
    assert main.run(arguments) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"schema": 1, "status": 2, "diagnostics": DIAGNOSTICS}
    assert "error: gpuforge.toml:3:8: [package] name must be a string" in printed.err


def test_who_does_not_gets_them_in_words_alone(tmp_path, monkeypatch, capsys):
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
def test_an_empty_path_is_an_error_and_not_this_folder(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    wheel(tmp_path, {"demo/a.so": elf()})
    assert main.run(arguments) == 2
    printed = capsys.readouterr()
    assert (printed.out, "the path is empty" in printed.err) == ("", True)


def test_the_list_of_commands_imports_none_of_them():
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


@pytest.mark.thorough
def test_a_plan_is_made_without_what_only_steps_need():
    program = "import sys, gpuforge.cli.build; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.splitlines())
    assert not loaded & {
        "gpuforge.binary.facts",
        "gpuforge.wheel.archive",
        "gpuforge.wheel.unpacked",
        "filelock",
    }


PROGRAM = (sys.executable, "-c", "from gpuforge.cli.main import main; main()")


def call(*arguments: str, stdout: str = os.devnull, **environ: str) -> subprocess.CompletedProcess[str]:
    with Path(stdout).open("w") as out:
        environment = {**os.environ, **environ}
        return subprocess.run(
            [*PROGRAM, *arguments],
            check=False,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["bash_source", "zsh_source", "fish_source", "bash_complete"])
def test_a_completion_ends_with_0(what):
    done = call(_GPUFORGE_COMPLETE=what, COMP_WORDS="gpuforge bu", COMP_CWORD="1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough
def test_a_full_standard_output_is_named(tmp_path):
    clean = wheel(tmp_path, {"demo/a.so": elf()})
    done = call("audit", str(clean), stdout="/dev/full")
    assert done.returncode == 3
    assert done.stderr.startswith("error: the standard output: No space left on device\n  hint: ")


@pytest.mark.thorough
def test_messages_that_cannot_be_written_change_no_status(tmp_path):
    with Path("/dev/full").open("w") as full:
        command = [*PROGRAM, "audit", str(tmp_path / "missing.whl")]
        assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=full).returncode == 2


def test_a_full_disk_of_the_output_is_named(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "demo.whl").write_bytes(b"PK")
    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError, match="No space left") as caught:
        put(tmp_path / "demo.whl", tmp_path / "dist", "cell", {})
    assert caught.value.filename == str(tmp_path / "dist/demo.whl")


def test_init_looks_at_its_output_before_it_fetches(capsys):
    assert run(["init", "no-such-project", "-o", "/proc/x.toml"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("error: /proc/x.toml cannot be written: ")
    assert err.endswith("  hint: name another file with --output (-o), or `-o -` to print it\n")


def test_a_temporary_name_is_in_no_message(tmp_path):
    with pytest.raises(ActionError) as caught:
        disk.write_text(Path("/proc/x.toml"), "")
    assert str(caught.value).startswith("/proc/x.toml: ")


def test_the_default_cache_folder_is_named_by_nothing(tmp_path):
    (tmp_path / "file").touch()
    cache = tmp_path / "file/cache"
    for environ, source in (
        ({}, "which is the default"),
        ({"GPUFORGE_CACHE_DIR": str(cache)}, "which GPUFORGE_CACHE_DIR names"),
    ):
        with pytest.raises(MissingError, match=f"^the cache folder {cache}, {source}, cannot be used: "):
            folders.check(tmp_path / "dist", cache, environ)


@pytest.mark.thorough
def test_without_an_engine_an_unknown_image_is_still_unknown(tmp_path):
    done = without_engine(tmp_path, "check", "nosuch")
    assert done.returncode == 3
    assert done.stderr.startswith("error: image nosuch is not here, and gpuforge knows none of this name\n")
    assert "--runner" not in without_engine(tmp_path, "check", "bookworm").stderr


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Build = Callable[..., Ended]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Build:
    """Plan a build with options and environment variables."""

    def call(file: ManifestFile, *options: str, **environ: str) -> Ended:
        monkeypatch.chdir(file.folder)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return Ended(run(["build", str(file.folder), "--dry-run", *options]), *capfd.readouterr())

    return call


def test_all_errors_are_reported_at_once(recipe, build, tmp_path):
    (tmp_path / "file").touch()
    file = recipe()
    dist, cache, work = tmp_path / "file/dist", tmp_path / "file/cache", tmp_path / "my work"
    done = build(file, "-o", str(dist), GPUFORGE_CACHE_DIR=str(cache), GPUFORGE_WORK=str(work))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"error: the output folder {dist} cannot be written to: {tmp_path}/file is a file\n"
        "  hint: choose another folder with --output (-o), or change who may write there\n"
        f"error: the cache folder {cache}, which GPUFORGE_CACHE_DIR names, cannot be used: {tmp_path}/file is a file\n"
        "  hint: set GPUFORGE_CACHE_DIR to a folder of your own\n"
        f"error: the working directory {work}, named by GPUFORGE_WORK, cannot be used: "
        "it has a space in its path, which breaks many builds\n"
        "  hint: set GPUFORGE_WORK to a folder of plain letters and digits\n"
        "3 errors\n"
    )
    assert not work.exists()


def test_another_users_cache(recipe, build, tmp_path):
    if os.geteuid():
        pytest.skip("giving a folder away needs root's rights")
    cache = tmp_path / "cache"
    cache.mkdir()
    os.chown(cache, 4711, -1)
    done = build(recipe(), GPUFORGE_CACHE_DIR=str(cache))
    assert done.returncode == 3
    assert done.stderr == (
        f"error: the cache folder {cache}, which GPUFORGE_CACHE_DIR names, cannot be used: "
        "it belongs to another user (uid 4711)\n"
        "  hint: set GPUFORGE_CACHE_DIR to a folder of your own\n"
    )
    assert list(cache.iterdir()) == []


def test_folders_without_permission(recipe, build, tmp_path):
    if not os.geteuid():
        pytest.skip("root may write everywhere")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    done = build(recipe(), "-o", str(closed / "dist"))
    assert done.returncode == 3
    assert (
        f"the output folder {closed}/dist cannot be written to: {closed} may not be written to\n"
        in done.stderr
    )


def test_folders_where_root_cannot_make_any_either(recipe, build, tmp_path):
    (tmp_path / "dist").symlink_to(tmp_path / "gone")
    done = build(
        recipe(), "-o", str(tmp_path / "dist"), GPUFORGE_CACHE_DIR="/proc/c", GPUFORGE_WORK="/proc/w"
    )
    why = (
        "no folder can be made in /proc: No such file or directory"
        if not os.geteuid()
        else "/proc may not be written to"
    )
    assert done.returncode == 3
    assert done.stderr == (
        f"error: the output folder {tmp_path}/dist cannot be written to: {tmp_path}/dist is a link to nothing\n"
        "  hint: choose another folder with --output (-o), or change who may write there\n"
        f"error: the cache folder /proc/c, which GPUFORGE_CACHE_DIR names, cannot be used: {why}\n"
        "  hint: set GPUFORGE_CACHE_DIR to a folder of your own\n"
        f"error: the working directory /proc/w, which GPUFORGE_WORK names, cannot be used: {why}\n"
        "  hint: set GPUFORGE_WORK to a folder of your own\n"
        "3 errors\n"
    )
