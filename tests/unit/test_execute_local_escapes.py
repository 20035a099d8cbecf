"""Processes that leave their session, beget others or outlive gpuforge: none runs on."""

import os
import signal
import subprocess
import sys
import time

import pytest
from local_samples import STUBBORN, gone, pids, task

from gpuforge.errors import ActionError
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import Limits

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
def test_children_end_when_gpuforge_is_killed(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), STUBBORN])
    running = pids(tmp_path / "log")
    parent.kill()
    parent.wait()
    assert all(gone(pid) for pid in running)


ESCAPED = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(f"{os.getpid()} ")
        time.sleep(3600)
        open(sys.argv[2] + "/late", "w").write("x")
    os._exit(0)
while not (os.path.exists(sys.argv[1]) and os.path.getsize(sys.argv[1])):
    time.sleep(0.01)
time.sleep(float(sys.argv[3]))
"""


@pytest.mark.parametrize(
    ("seconds", "wait"), [(600.0, "0"), pytest.param(5.0, "3600", marks=pytest.mark.thorough)]
)
def test_what_has_left_its_session_ends_with_the_command_and_with_its_time(tmp_path, seconds, wait):
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
            "cell/act ran longer than 0.00138889 h and was stopped\n  hint: --timeout allows more"
        )
    assert time.monotonic() - begin < 600  # it does not wait for them
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
def test_processes_that_beget_each_other_without_end_are_stopped(tmp_path):
    runner = LocalRunner(environ={}, root=tmp_path)
    runner.run(task(tmp_path, COMET, str(tmp_path / "marks")))
    before = (tmp_path / "marks").stat().st_size if (tmp_path / "marks").exists() else 0
    time.sleep(0.3)
    assert before == ((tmp_path / "marks").stat().st_size if (tmp_path / "marks").exists() else 0)


def test_all_runs_of_a_process_have_one_program_for_keepers_and_get_another_if_it_was_ended(tmp_path):
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
