"""The local runner with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpuforge.errors import ActionError, GpuforgeError, MissingError
from gpuforge.execute import workdir
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import Exit, InputPath, Limits, Task
from gpuforge.plan.action import Action, FileInput


def task(
    tmp_path: Path,
    code: str = "",
    *arguments: str,
    argv: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    passes: tuple[str, ...] = (),
    inputs: Mapping[str, InputPath] | None = None,
    outputs: tuple[str, ...] = (),
    name: str = "cell/act",
) -> Task:
    sources = inputs or {}
    action = Action(
        name,
        "build",
        "do it",
        argv or (sys.executable, "-c", code, *arguments),
        inputs={each: FileInput(source.path, "0") for each, source in sources.items()},
        outputs=outputs,
        env=env or {},
        passes=passes,
    )
    out = tmp_path / f"out-{name.replace('/', '-')}"
    out.mkdir(exist_ok=True)
    return Task(action, sources, out, tmp_path / f"{name.replace('/', '-')}.log")


@pytest.fixture
def runner(tmp_path: Path) -> LocalRunner:
    root = tmp_path / "work root"
    root.mkdir()
    return LocalRunner(
        environ={"HTTPS_PROXY": "http://user:secret@proxy", "HOME": "/h"}, root=root, grace=0.3
    )


def test_the_environment_is_exactly_the_actions_and_the_log_shows_how_to_repeat_it(
    tmp_path: Path, runner: LocalRunner
) -> None:
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


def test_outputs_inputs_and_staged_copies(tmp_path: Path, runner: LocalRunner) -> None:
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


def test_what_an_earlier_run_left_in_the_working_directory_is_gone(
    tmp_path: Path, runner: LocalRunner
) -> None:
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
def test_the_error_of_what_cannot_be_started_has_the_cause(
    tmp_path: Path, runner: LocalRunner, argv: tuple[str, ...], kind: type[GpuforgeError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        runner.run(task(tmp_path, argv=argv, env={"PATH": "/bin:/usr/bin"}))
    assert str(caught.value) == message
    assert not (tmp_path / "work root/cell-act").exists()


def test_a_missing_interpreter_is_named_as_such(tmp_path: Path, runner: LocalRunner) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(MissingError) as caught:
        runner.run(task(tmp_path, argv=(str(script),)))
    assert str(caught.value) == (
        f"cell/act cannot be started: the interpreter that {script} names is not there\n"
        f"  hint: look at the first line of {script}"
    )


def test_children_left_behind_by_a_finished_command_are_stopped(tmp_path: Path, runner: LocalRunner) -> None:
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid)"
    asked = task(tmp_path, code, env={"PATH": os.defpath})
    assert runner.run(asked).status == 0
    assert gone(int(asked.log.read_text().split()[-1]))


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(60)
"""


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":  # nobody in this container reaps orphans
            return True
        time.sleep(0.02)
    return False


def pids(log: Path) -> list[int]:
    for _ in range(250):
        lines = log.read_text().splitlines() if log.exists() else []
        if lines and lines[-1].replace(" ", "").isdigit():
            return [int(word) for word in lines[-1].split()]
        time.sleep(0.02)
    raise AssertionError(log.read_text())


@pytest.mark.thorough
def test_cancel_stops_a_process_that_ignores_the_request_and_its_child(
    tmp_path: Path, runner: LocalRunner
) -> None:
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


def test_cancel_is_quick_with_processes_that_obey(tmp_path: Path) -> None:
    runner = LocalRunner(root=tmp_path, grace=30)
    asked = task(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    thread = threading.Thread(target=runner.run, args=(asked,))
    thread.start()
    pids(asked.log)
    begin = time.monotonic()
    runner.cancel()
    thread.join()
    assert time.monotonic() - begin < 5


@pytest.mark.thorough
def test_two_runners_share_a_working_directory_one_after_the_other(tmp_path: Path) -> None:
    code = "import os, time; open('mine', 'x'); t = time.monotonic(); time.sleep(0.3); print(t, time.monotonic())"
    spans = []
    threads = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        asked = task(folder, code)
        threads.append(threading.Thread(target=LocalRunner(root=tmp_path).run, args=(asked,)))
        spans.append(asked.log)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (a, b), (c, d) = sorted([float(x) for x in log.read_text().split()[-2:]] for log in spans)
    assert a < b <= c < d


@pytest.mark.thorough
def test_waiting_for_a_working_directory_ends_with_cancel(tmp_path: Path) -> None:
    first, second = LocalRunner(root=tmp_path), LocalRunner(root=tmp_path)
    (tmp_path / "b").mkdir()
    asked = task(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    holder = threading.Thread(target=first.run, args=(asked,))
    holder.start()
    pids(asked.log)
    ends = list[Exit]()
    waiter = threading.Thread(target=lambda: ends.append(second.run(task(tmp_path / "b", "print()"))))
    waiter.start()
    time.sleep(0.15)
    second.cancel()
    waiter.join()
    assert ends[0].cancelled
    first.cancel()
    holder.join()


PARENT = """
import sys
from pathlib import Path
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import Task
from gpuforge.plan.action import Action
top = Path(sys.argv[1])
action = Action("a", "build", "a", (sys.executable, "-c", sys.argv[2]))
LocalRunner(root=top).run(Task(action, {}, top, top / "log"))
"""


@pytest.mark.thorough
def test_children_end_when_gpuforge_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), STUBBORN])
    running = pids(tmp_path / "log")
    parent.kill()
    parent.wait()
    assert all(gone(pid) for pid in running)


def test_the_working_root_is_private_or_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir, "DEFAULT", tmp_path / "gpuforge")
    own = tmp_path / f"gpuforge-{os.geteuid()}"
    assert workdir.root({}) == tmp_path / "gpuforge"
    assert (tmp_path / "gpuforge").stat().st_mode & 0o777 == 0o700
    (tmp_path / "gpuforge").chmod(0o777)
    assert workdir.root({}) == own
    own.rmdir()
    own.symlink_to(tmp_path)
    with pytest.raises(MissingError) as caught:
        workdir.root({})
    assert str(caught.value) == (
        f"{tmp_path}/gpuforge and {own} belong to somebody else or can be written by others\n"
        "  hint: set GPUFORGE_WORK to a folder of your own"
    )
    assert workdir.root({"GPUFORGE_WORK": str(tmp_path / "x/y")}) == tmp_path / "x/y"
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingError) as caught:
        workdir.root({"GPUFORGE_WORK": str(tmp_path / "file")})
    assert str(caught.value) == (
        f"the working directory {tmp_path}/file, named by GPUFORGE_WORK, cannot be made: File exists\n"
        "  hint: set GPUFORGE_WORK to a folder you can write to"
    )


@pytest.mark.parametrize(
    ("name", "mode", "owner", "message"),
    [
        (
            "a place",
            0o700,
            None,
            "it has a space in its path, which many builds cannot bear\n"
            "  hint: set GPUFORGE_WORK to a folder of plain letters and digits",
        ),
        (
            "a:b",
            0o700,
            None,
            "it has the character ':' in its path, which many builds cannot bear\n"
            "  hint: set GPUFORGE_WORK to a folder of plain letters and digits",
        ),
        (
            "open",
            0o777,
            None,
            "others can write to it (mode 777)\n"
            "  hint: chmod go-w {folder}, or set GPUFORGE_WORK to a folder of your own",
        ),
        (
            "theirs",
            0o700,
            4711,
            "it belongs to another user (uid 4711)\n  hint: set GPUFORGE_WORK to a folder of your own",
        ),
    ],
)
def test_a_named_working_root_is_as_private(
    tmp_path: Path, name: str, mode: int, owner: int | None, message: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    folder.chmod(mode)
    if owner is not None:
        if os.geteuid():
            pytest.skip("giving a folder away needs root's rights")
        os.chown(folder, owner, -1)
    with pytest.raises(MissingError) as caught:
        workdir.root({"GPUFORGE_WORK": str(folder)})
    assert str(caught.value) == (
        f"the working directory {folder}, named by GPUFORGE_WORK, cannot be used: {message.format(folder=folder)}"
    )


@pytest.mark.thorough
def test_actions_of_one_place_have_the_same_path_one_after_another(
    tmp_path: Path, runner: LocalRunner
) -> None:
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


ESCAPED = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(f"{os.getpid()} ")
        time.sleep(100)
        open(sys.argv[2] + "/late", "w").write("x")
    os._exit(0)
while not (os.path.exists(sys.argv[1]) and os.path.getsize(sys.argv[1])):
    time.sleep(0.01)
time.sleep(float(sys.argv[3]))
"""


@pytest.mark.parametrize(
    ("seconds", "wait"), [(60.0, "0"), pytest.param(1.5, "100", marks=pytest.mark.thorough)]
)
def test_what_has_left_its_session_ends_with_the_command_and_with_its_time(
    tmp_path: Path, seconds: float, wait: str
) -> None:
    """It would write into outputs after they were hashed."""
    runner = LocalRunner(environ={}, root=tmp_path, limits=Limits(seconds=seconds))
    asked = task(tmp_path, ESCAPED, str(tmp_path / "pid"), "${out:x}", wait, outputs=("x",))
    begin = time.monotonic()
    if wait == "0":
        assert runner.run(asked).status == 0
    else:
        with pytest.raises(ActionError) as caught:
            runner.run(asked)
        assert str(caught.value) == (
            "cell/act ran longer than 0.000416667 h and was stopped\n  hint: --timeout allows more"
        )
    assert time.monotonic() - begin < 20
    assert gone(int((tmp_path / "pid").read_text()))


COMET = """
import os, sys, time
end = time.time() + 100
while time.time() < end:  # each lives for a moment, and its child goes on
    if os.fork():
        os._exit(0)
    os.setsid()
    open(sys.argv[1], "a").write("x")
"""


@pytest.mark.thorough
def test_processes_that_beget_each_other_without_end_are_stopped(tmp_path: Path) -> None:
    runner = LocalRunner(environ={}, root=tmp_path)
    runner.run(task(tmp_path, COMET, str(tmp_path / "marks")))
    before = (tmp_path / "marks").stat().st_size if (tmp_path / "marks").exists() else 0
    time.sleep(0.3)
    assert before == ((tmp_path / "marks").stat().st_size if (tmp_path / "marks").exists() else 0)


def test_all_runs_of_a_process_have_one_program_for_keepers_and_get_another_if_it_was_ended(
    tmp_path: Path,
) -> None:
    """A worker of a cluster has a run for each action, and starting Python for each takes 40 ms."""

    def maker() -> int:
        mark = tmp_path / "maker"
        code = (  # of the keeper's process, whose parent makes keepers
            "import os, sys; stat = open(f'/proc/{os.getppid()}/stat').read();"
            "open(sys.argv[1], 'w').write(stat.rpartition(')')[2].split()[1])"
        )
        assert LocalRunner(environ={}, root=tmp_path).run(task(tmp_path, code, str(mark))).status == 0
        return int(mark.read_text())

    first = maker()
    assert maker() == first
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert maker() != first


def test_a_command_that_ends_its_keeper_has_failed(tmp_path: Path, runner: LocalRunner) -> None:
    with pytest.raises(ActionError) as caught:
        runner.run(task(tmp_path, "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"))
    assert str(caught.value) == (
        "cell/act was ended by something else than gpuforge\n"
        "  hint: what it started may run still; run the same command again: what is finished is kept"
    )
