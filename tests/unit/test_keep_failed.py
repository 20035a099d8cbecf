"""--keep-failed: the working directory of an action that failed is where the message says, and no other is."""

from pathlib import Path
from unittest.mock import ANY

import pytest

from gpuforge.execute import workdir
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import Exit, Task
from gpuforge.plan.action import Action


def ran(folder: Path, script: str, failed: Path | None) -> Exit:
    """Run a shell script as an action."""
    for name in ("work", "out"):
        (folder / name).mkdir(exist_ok=True)
    action = Action("cp311/host-build", "build", "build it", ("/bin/sh", "-c", script), outputs=())
    runner = LocalRunner(environ={}, root=folder / "work", failed=failed)
    return runner.run(Task(action, {}, folder / "out", folder / "log"))


def test_what_a_failed_action_left_is_kept_until_it_fails_again(tmp_path):
    failed = tmp_path / "dist/.failed"
    for number in (1, 2):
        end = ran(tmp_path, f"echo {number} > config.log; exit 3", failed)
        assert end.status == 3
        assert end.kept is not None
        assert end.kept.parent == failed
        assert (end.kept / "config.log").read_text() == f"{number}\n"
    assert len(list(failed.iterdir())) == 1


@pytest.mark.parametrize(("script", "keeps"), [("exit 0", True), ("exit 3", False)])
def test_nothing_is_kept_of_a_success_or_without_the_option(tmp_path, script, *, keeps):
    end = ran(tmp_path, f"touch made; {script}", tmp_path / "failed" if keeps else None)
    assert end.kept is None
    assert not (tmp_path / "failed").exists()
    assert not list((tmp_path / "work").rglob("made"))


def test_a_folder_that_cannot_be_written_hides_no_failure(tmp_path):
    (tmp_path / "dist").write_text("a file")
    assert ran(tmp_path, "exit 3", tmp_path / "dist/.failed") == Exit(3, ANY, memory=ANY)


def test_a_name_for_each_action(tmp_path):
    for action in ("cp311/host-build", "cp312/host-build"):
        work = tmp_path / "work"
        work.mkdir()
        assert workdir.keep(work, tmp_path / "failed", action) is not None
        work.rmdir()
    assert len(list((tmp_path / "failed").iterdir())) == 2


@pytest.mark.parametrize("kept", [True, False])
def test_a_shell_is_where_the_action_failed(tmp_path, *, kept):
    """With what it left, if that was kept; otherwise in a new folder that nobody needs afterwards."""
    failed = tmp_path / "failed"
    ran(tmp_path, "echo 1 > config.log; exit 3", failed if kept else None)
    action = Action(
        "cp311/host-build",
        "build",
        "build it",
        ("/bin/sh", "-c", "exit 3"),
        env={"CXX": "${work}/g++"},
        outputs=(),
    )
    runner = LocalRunner(environ={}, root=tmp_path / "work")
    script = 'test "$CXX" = "$PWD/g++" && ls > here && echo "$GPUFORGE_COMMAND" >> here; cp here ../../seen; exit 4'
    assert runner.enter(Task(action, {}, tmp_path / "out"), ["/bin/sh", "-c", script], failed) == 4
    seen = "config.log\nhere\n" if kept else "here\n"
    assert (tmp_path / "seen").read_text() == f"{seen}/bin/sh -c 'exit 3'\n"
    assert sorted(path.name for path in failed.glob("*/*")) == (["config.log", "here"] if kept else [])
    assert not list((tmp_path / "work").rglob("here"))
