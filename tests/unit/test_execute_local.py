"""The local runner with real processes."""

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from local_samples import STUBBORN, gone, pids, task

from gpuforge import private_mounts
from gpuforge.errors import ActionError, MissingError
from gpuforge.execute import workdir
from gpuforge.execute.runners.local import local_runner
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import Exit, InputPath, Task


@pytest.fixture
def runner(tmp_path: Path) -> LocalRunner:
    root = tmp_path / "work root"
    root.mkdir()
    return LocalRunner(
        environ={"HTTPS_PROXY": "http://user:secret@proxy", "HOME": "/h"}, root=root, grace=0.3
    )


def test_the_environment_is_exactly_the_actions_and_the_log_shows_how_to_repeat_it(tmp_path, runner):
    code = "import os; print(sorted(os.environ.items())); print(os.getcwd()); print(input())"
    env = {"A": "${work}/a b", "LC_ALL": "C.UTF-8", "KEEP": "${HOME} $x ${other:y}"}
    asked = task(tmp_path, code, env=env, passes=("HTTPS_PROXY", "NO_PROXY"))
    end = runner.run(asked)
    assert (end.status, end.cancelled) == (1, False)  # nothing can be read from standard input
    text = asked.log.read_text()
    work = tmp_path / "work root" / "cell-act"
    head, rest = text.split("\n\n", 1)
    assert head.splitlines() == [
        "# do it",
        f"# in {work} with",
        f"#   A='{work}/a b'",
        "#   HTTPS_PROXY=(from the caller)",
        "#   KEEP='${HOME} $x ${other:y}'",
        "#   LC_ALL=C.UTF-8",
        f"$ {sys.executable} -c '{code}'",
    ]
    seen = {"A": f"{work}/a b", "HTTPS_PROXY": "http://user:secret@proxy", "KEEP": "${HOME} $x ${other:y}"}
    assert rest.splitlines()[0] == str(sorted((seen | {"LC_ALL": "C.UTF-8"}).items()))
    assert rest.splitlines()[1] == str(work)
    assert "EOFError" in rest
    assert not work.exists()


def test_outputs_inputs_and_staged_copies(tmp_path, runner):
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin/tool").write_text("tool")
    (tree / "bin/tool").chmod(0o555)
    (tree / "not a member").write_text("x")
    (tree / "lib64").symlink_to("lib")
    one = tmp_path / "one.txt"
    one.write_text("one")
    one.chmod(0o444)
    inputs = {
        "one": InputPath(one),
        "some": InputPath(tree, ("bin/tool",)),
        "all": InputPath(tree),
    }
    code = """
import os, sys
from pathlib import Path
read, staged, some, every, out = map(Path, sys.argv[1:])
print(read.read_text(), sorted(os.listdir()))
staged.write_text("changed")
print(sorted(p.relative_to(some).as_posix() for p in some.rglob("*")))
print(sorted(p.relative_to(every).as_posix() for p in every.rglob("*")), os.readlink(every / "lib64"))
tool = (some / "bin/tool").stat()
print(oct(tool.st_mode), tool.st_mtime, (some / "bin").stat().st_mtime, some.stat().st_mtime)
out.mkdir(); (out / "made").write_text("made"); print(oct((out / "made").stat().st_mode), out)
"""
    arguments = ("${in:one}", "${stage:one}", "${stage:some}", "${stage:all}", "${out:result}")
    asked = task(tmp_path, code, *arguments, inputs=inputs, outputs=("result",))
    assert runner.run(asked).status == 0, asked.log.read_text()
    stamp = float(workdir.STAGED_TIME)
    assert asked.log.read_text().split("\n\n", 1)[1].splitlines()[-5:] == [
        "one ['all', 'one', 'some']",
        "['bin', 'bin/tool']",
        "['bin', 'bin/tool', 'lib64', 'not a member'] lib",
        f"0o100755 {stamp} {stamp} {stamp}",
        f"0o100644 {tmp_path}/work root/cell-act.out/result",
    ]
    assert (asked.out / "result/made").read_text() == "made"
    assert one.read_text() == "one"
    assert [each.name for each in (tmp_path / "work root").iterdir()] == ["cell-act.lock"]


@pytest.mark.parametrize("allowed", [True, False], ids=["overlay", "copy"])
def test_laid_inputs_can_be_changed_for_this_run_alone(tmp_path, runner, monkeypatch, *, allowed):
    env = tmp_path / "env"
    (env / "lib").mkdir(parents=True)
    for name in ("patched", "kept", "removed"):
        (env / "lib" / name).write_text(name)
    if not allowed:
        monkeypatch.setattr(local_runner, "can_lay", lambda *_: False)
    elif not private_mounts.can_lay(env, tmp_path):
        pytest.skip("no overlays on this system")
    code = """
import os, sys
from pathlib import Path
env = Path(sys.argv[1])
(env / "lib/patched").write_text("changed"); (env / "lib/removed").unlink(); (env / "lib/new").touch()
print(sorted((each.name, each.read_text()) for each in (env / "lib").iterdir()))
print(os.path.ismount(env))
"""
    for _ in range(2):
        asked = task(tmp_path, code, "${lay:env}", inputs={"env": InputPath(env)})
        assert runner.run(asked).status == 0, asked.log.read_text()
        seen = [("kept", "kept"), ("new", ""), ("patched", "changed")]
        assert asked.log.read_text().splitlines()[-2:] == [str(seen), str(allowed)]
    assert {each.name: each.read_text() for each in (env / "lib").iterdir()} == {
        name: name for name in ("patched", "kept", "removed")
    }
    assert [each.name for each in (tmp_path / "work root").iterdir()] == ["cell-act.lock"]


def test_what_an_earlier_run_left_in_the_working_directory_is_gone(tmp_path, runner):
    work = tmp_path / "work root/cell-act"
    work.mkdir()
    (work / "left").write_text("x")
    work.chmod(0o500)
    (tmp_path / "work root/cell-act.out").symlink_to("/nowhere")
    asked = task(tmp_path, "import os; raise SystemExit(len(os.listdir()))")
    assert runner.run(asked).status == 0


@pytest.mark.parametrize(
    ("argv", "kind", "message"),
    [
        (
            ("no-such-program",),
            MissingError,
            "cell/act cannot be started: no-such-program is not there\n"
            "  hint: install no-such-program or correct the path to it (its PATH is /bin:/usr/bin)",
        ),
        (
            ("/no/such/program",),
            MissingError,
            "cell/act cannot be started: /no/such/program is not there\n"
            "  hint: install /no/such/program or correct the path to it",
        ),
        (
            ("/",),
            ActionError,
            "cell/act cannot be started: / may not be executed\n"
            "  hint: check the permissions of / (is it a program?)",
        ),
        (
            ("true", "a\0b"),
            ActionError,
            "cell/act cannot be started: embedded null byte in its command line or environment",
        ),
        (
            ("true", "${out:nothing}"),
            ActionError,
            "the command of cell/act uses ${out:nothing}, but the action has no output of that name\n"
            "  hint: this is a mistake in the plan: please report it",
        ),
        (
            ("true", "${in:nothing}"),
            ActionError,
            "the command of cell/act uses ${in:nothing}, but the action has no input of that name\n"
            "  hint: this is a mistake in the plan: please report it",
        ),
        (
            ("true", "${stage:nothing}"),
            ActionError,
            "the command of cell/act uses ${stage:nothing}, but the action has no input of that name\n"
            "  hint: this is a mistake in the plan: please report it",
        ),
    ],
)
def test_the_error_of_what_cannot_be_started_has_the_cause(tmp_path, runner, argv, kind, message):
    with pytest.raises(kind) as caught:
        runner.run(task(tmp_path, argv=argv, env={"PATH": "/bin:/usr/bin"}))
    assert str(caught.value) == message
    assert not (tmp_path / "work root/cell-act").exists()


def test_a_missing_interpreter_is_named_as_such(tmp_path, runner):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(MissingError) as caught:
        runner.run(task(tmp_path, argv=(str(script),)))
    assert str(caught.value) == (
        f"cell/act cannot be started: the interpreter that {script} names is not there\n"
        f"  hint: look at the first line of {script}"
    )


def test_children_left_behind_by_a_finished_command_are_stopped(tmp_path, runner):
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid)"
    asked = task(tmp_path, code, env={"PATH": os.defpath})
    assert runner.run(asked).status == 0
    assert gone(int(asked.log.read_text().split()[-1]))


@pytest.mark.thorough
def test_one_action_is_stopped_with_its_children_and_others_go_on(tmp_path, runner):
    asked, other = (
        task(tmp_path, STUBBORN, name="one"),
        task(tmp_path, "import time; time.sleep(1)", name="two"),
    )
    ends: dict[str, Exit] = {}

    def run(each: Task) -> None:
        ends[each.action.id] = runner.run(each)

    threads = [threading.Thread(target=run, args=(each,)) for each in (asked, other)]
    for thread in threads:
        thread.start()
    running = pids(asked.log)
    asked.stop.set()
    runner.stop("one")
    for thread in threads:
        thread.join()
    assert (ends["one"].status, ends["one"].cancelled) == (-signal.SIGKILL, True)
    assert (ends["two"].status, ends["two"].cancelled) == (0, False)
    assert all(gone(pid) for pid in running)
    assert runner.run(task(tmp_path, "pass", name="one-again")).status == 0


@pytest.mark.thorough
def test_cancel_stops_a_process_that_ignores_the_request_and_its_child(tmp_path, runner):
    asked, ends = task(tmp_path, STUBBORN), list[Exit]()
    thread = threading.Thread(target=lambda: ends.append(runner.run(asked)))
    thread.start()
    running = pids(asked.log)
    begin = time.monotonic()
    runner.cancel()
    thread.join()
    assert time.monotonic() - begin >= 0.3
    assert [(end.status, end.cancelled) for end in ends] == [(-signal.SIGKILL, True)]
    assert all(gone(pid) for pid in running)
    assert not (tmp_path / "work root/cell-act").exists()
    assert runner.run(task(tmp_path, "print('never')", name="later")).cancelled
    assert "never" not in (tmp_path / "later.log").read_text().split("\n\n", 1)[-1]


def test_cancel_is_quick_with_processes_that_obey(tmp_path):
    runner = LocalRunner(root=tmp_path, grace=600)
    asked = task(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    thread = threading.Thread(target=runner.run, args=(asked,))
    thread.start()
    pids(asked.log)
    runner.cancel()
    thread.join(120)
    assert not thread.is_alive()


@pytest.mark.thorough
def test_actions_of_one_place_have_the_same_path_one_after_another(tmp_path, runner):
    code = "import os, time; print(os.getcwd(), os.listdir()); open('mine', 'w'); time.sleep(0.2)"
    asked = [replace(each, action=replace(each.action, place="shared"))
             for each in (task(tmp_path, code, name=f"cell{n}/act") for n in range(3))]  # fmt: skip
    threads = [threading.Thread(target=runner.run, args=(each,)) for each in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = {each.log.read_text().splitlines()[-1] for each in asked}
    assert said == {f"{tmp_path / 'work root' / 'shared'} []"}


def test_a_command_that_ends_its_keeper_has_failed(tmp_path, runner):
    with pytest.raises(ActionError) as caught:
        runner.run(task(tmp_path, "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"))
    assert str(caught.value) == (
        "cell/act was ended by something else than gpuforge\n"
        "  hint: its processes may still run; run the same command again: finished work is kept"
    )
