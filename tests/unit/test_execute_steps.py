"""Steps that are forked from one program: each is as if Python had been started for it, and ends with its command."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from uuid import uuid4

import pytest
from local_samples import gone, pids, task

import gpuforge
from gpuforge.errors import ActionError
from gpuforge.execute.runners.local import keeper, kept_command
from gpuforge.execute.runners.local.kept_command import Keepers
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import InputPath, Limits, Task
from gpuforge.plan.action import FileInput

SERVER = """
import sys
sys.path.insert(0, {folder!r})
from gpuforge.execute.runners.local import keeper
keeper.serve(int(sys.argv[1]))
"""


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Task]]:
    """Return a function that makes the task of a step from its source."""
    server = tmp_path / "server.py"
    server.write_text(SERVER.format(folder=str(tmp_path)))
    monkeypatch.setattr(keeper, "__file__", str(server))
    monkeypatch.setattr(Keepers, "_of_this_process", None)

    def make(code: str, *arguments: str, name: str = "cell/act", env: dict[str, str] | None = None) -> Task:
        module = f"step_{uuid4().hex}"
        (tmp_path / f"{module}.py").write_text(f"if __name__ == '__main__':\n{indent(code, '    ')}\n")
        asked = task(tmp_path, name=name, argv=("${in:gpuforge}", "-I", "-m", module, *arguments), env=env)
        python = Path(sys.executable)
        action = replace(asked.action, inputs={"gpuforge": FileInput(python, "0")})
        return replace(asked, action=action, inputs={"gpuforge": InputPath(python)})

    yield make
    if Keepers._of_this_process:
        Keepers._of_this_process._process.kill()
        Keepers._of_this_process._process.wait()


@pytest.fixture
def runner(tmp_path: Path) -> LocalRunner:
    return LocalRunner(environ={}, root=tmp_path, grace=0.3)


def output(asked: Task) -> str:
    return asked.log.read_text().split("\n\n", 1)[1]


STATE = """
import gc, json, os, resource, signal, sys, tempfile, threading, time
limits = {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT")}
mask = os.umask(0)
handlers = {str(n): str(signal.getsignal(n)) for n in signal.valid_signals()}
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
streams = [(s.fileno(), s.encoding, s.errors, s.line_buffering, s.isatty()) for s in (sys.stdout, sys.stderr)]
print(json.dumps({
    "environ": sorted(os.environ.items()), "cwd": os.getcwd(), "umask": mask, "limits": limits,
    "handlers": handlers, "signals": [status[n] for n in ("SigBlk", "SigIgn", "SigCgt")], "streams": streams,
    "arguments": sys.argv[1:], "name": __name__, "main": sys.modules["__main__"].__dict__ is globals(),
    "session": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()], "stdin": sys.stdin.read(),
    "files": sorted(os.listdir("/proc/self/fd")), "threads": len(os.listdir("/proc/self/task")),
    "zone": time.tzname, "tempdir": tempfile.gettempdir(), "gc": gc.isenabled(), "flags": str(sys.flags),
    "nice": os.nice(0), "subreaper": status["NoNewPrivs"], "path": [p for p in sys.path if "pytest" not in p],
}))
"""


def test_a_step_sees_what_a_new_python_sees(tmp_path, step, runner, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "x")
    env = {"A": "b", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "TMPDIR": "${work}", "HOME": "/h"}
    forked = step(STATE, "a b", "", env=env)
    assert runner.run(forked).status == 0, output(forked)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{STATE}"
    fresh = task(tmp_path, argv=(sys.executable, "-I", "-c", code, "a b", ""), env=env)
    assert runner.run(fresh).status == 0, output(fresh)
    seen, expected = (json.loads(output(each).splitlines()[-1]) for each in (forked, fresh))
    assert seen == expected


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        ("print('on')", 0, "on\n"),
        ("raise SystemExit(3)", 3, ""),
        ("import os; os.abort()", -signal.SIGABRT, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("import os; os.closerange(0, 99); os.chdir('/')", 0, ""),
        ("import atexit; atexit.register(print, 'end'); print('first')", 0, "first\nend\n"),
        ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf')", 0, "deaf\n"),
    ],
)
def test_a_step_ends_as_a_program_does(step, runner, code, status, text):
    for _ in range(2):  # nothing that one does reaches the next
        asked = step(code)
        assert (runner.run(asked).status, output(asked)) == (status, text)


def test_the_memory_of_the_largest_process_is_measured(tmp_path, runner):
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'len(bytearray(200_000_000))'])"
    assert runner.run(task(tmp_path, code)).memory > 200_000_000 > runner.run(task(tmp_path, "pass")).memory


def test_the_error_of_a_step_is_in_its_log(step, runner):
    asked = step("1 / 0")
    assert runner.run(asked).status == 1
    assert output(asked).endswith("ZeroDivisionError: division by zero\n")


LEAVING = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(3600)
    os._exit(0)
time.sleep(float(sys.argv[1]))
"""


def test_processes_that_a_step_leaves_end_with_it(step, runner):
    asked = step(LEAVING, "0.3")
    assert runner.run(asked).status == 0
    assert gone(int(output(asked)))


@pytest.mark.thorough
def test_a_step_ends_with_its_time_and_when_it_is_cancelled(tmp_path, step, runner):
    with pytest.raises(ActionError, match="ran longer than"):
        LocalRunner(environ={}, root=tmp_path, limits=Limits(seconds=1)).run(step(LEAVING, "3600"))
    deaf = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(99)"
    asked = step(deaf, name="deaf")
    thread = threading.Thread(target=runner.run, args=(asked,))
    thread.start()
    running = pids(asked.log)
    runner.cancel()
    thread.join()
    assert all(gone(pid) for pid in running)


@pytest.mark.thorough
def test_a_step_goes_on_when_the_program_is_killed_and_the_next_gets_another(step, runner):
    asked = step("import os, time; print(os.getpid(), flush=True); time.sleep(0.5)")
    ends = []
    thread = threading.Thread(target=lambda: ends.append(runner.run(asked)))
    thread.start()
    pids(asked.log)
    first = Keepers.of_this_process()
    first._process.kill()
    first._process.wait()
    thread.join()
    assert [each.status for each in ends] == [0]
    runner.prepare([asked.action])
    assert runner.run(step("print('again')")).status == 0
    assert Keepers.of_this_process() is not first


@pytest.mark.thorough
def test_a_step_that_ends_its_keeper_or_stops_the_program_fails_alone(step, runner, monkeypatch):
    with pytest.raises(ActionError, match="was ended by something else than gpuforge"):
        runner.run(step("import os; os.kill(os.getppid(), 9)"))
    stop = "os.kill(int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1]), 19)"
    assert runner.run(step(f"import os; {stop}")).status == 0
    with monkeypatch.context() as patch:
        patch.setattr(kept_command, "_STARTING_S", 1.0)  # the stopped program never answers
        with pytest.raises(ActionError, match="was ended by something else than gpuforge"):
            runner.run(step("print('never')", name="next"))
    assert runner.run(step("print('again')", name="later")).status == 0


FULL = """
import os
fork, left = os.fork, [{good}]
def limited():
    left[0] -= 1
    if left[0] == -1:
        raise BlockingIOError(11, "full")
    return fork()
os.fork = limited
"""


@pytest.mark.parametrize("good", [0, 1], ids=["keeper", "step"])
def test_a_system_without_room_for_a_process_is_reported(good, tmp_path, step, runner):
    server = tmp_path / "server.py"
    server.write_text(FULL.format(good=good) + server.read_text())
    asked = step("print('on')")
    with pytest.raises(ActionError, match=r"cannot be started: .*: Resource temporarily unavailable"):
        runner.run(asked)
    assert Keepers.of_this_process()._process.poll() is None


def test_a_prepared_step_is_imported_once_in_a_process_that_runs_none_of_it(tmp_path, step, runner):
    """Its main part runs in its own process only."""
    marks = tmp_path / "marks"
    (tmp_path / "heavy.py").write_text(f"import os; open({str(marks)!r}, 'a').write(f'{{os.getpid()}} ')")
    asked = step("import heavy, os; print(os.getpid(), __name__)")
    Keepers.of_this_process().prepare(["heavy"])
    deadline = time.monotonic() + 60
    while not marks.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    seen = []
    for _ in range(2):
        assert runner.run(asked).status == 0
        seen.append(int(output(asked).split()[0]))
    (importer,) = map(int, marks.read_text().split())
    assert importer == Keepers.of_this_process()._process.pid
    assert len({importer, *seen}) == 3


IMPORTING = """
import importlib, os, pathlib, sys, tempfile, traceback
reads, kind = set(), type(os.environ)
look = kind.__getitem__
def noting(self, name):
    files = [frame.filename for frame in traceback.extract_stack()[:-1]]
    own = [file for file in files if "/gpuforge/" in file]
    if own and not any("/pydantic/" in file or "/lib/python3." in file for file in files[files.index(own[-1]) + 1 :]):
        reads.add((own[-1], name))
    return look(self, name)
kind.__getitem__ = noting
for module in sys.argv[1:]:
    importlib.import_module(module)
print(sorted(reads), len(os.listdir("/proc/self/task")), tempfile.tempdir, len(os.listdir("/proc/self/fd")))
"""


@pytest.mark.thorough
def test_the_modules_of_steps_can_be_imported_before_a_fork():
    """They start no thread, leave no file open and read no variable: these are the action's only later."""
    folder = Path(gpuforge.__file__).parent / "actions"
    modules = [f"gpuforge.actions.{each.stem}" for each in folder.glob("[a-z]*.py")]
    ran = subprocess.run(
        [sys.executable, "-I", "-c", IMPORTING, *modules], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[] 1 None 4\n"


@pytest.mark.thorough
def test_the_command_of_a_manifest_is_started_as_a_program(tmp_path, runner):
    """Only gpuforge's own code runs in a fork; a module of the same name elsewhere is not imported."""
    asked = task(
        tmp_path,
        argv=(sys.executable, "-I", "-m", "gpuforge.actions.entry", "trial.TryWheel", "/none", "/no"),
    )
    assert runner.run(asked).status == 1
    argv = "import os; print(open('/proc/self/cmdline').read().split(chr(0))[0])"
    asked = task(tmp_path, argv, name="other")
    assert runner.run(asked).status == 0
    assert output(asked) == f"{sys.executable}\n"
