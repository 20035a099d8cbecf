"""A compilation that is ended: by each signal, and by one that leaves something behind."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from compile_samples import builds, compiler, eventually
from library_samples import answer, environment, run

pytestmark = pytest.mark.thorough


HANGS = "echo $$ > HERE/pids; sleep 300 & echo $! >> HERE/pids; touch HERE/started; wait"


def _hears() -> None:
    """Let a process be interrupted, also where the tests run in the background or by nohup, and are not."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Compiling:
    """A compilation whose compiler hangs, with a child of its own, until it is ended."""

    def __init__(self, site: Path, tmp_path: Path, *arguments: object, before: Sequence[str] = ()) -> None:
        option = compiler(tmp_path, HANGS.replace("HERE", str(tmp_path)))
        argv = [*before, sys.executable, "-m", "demo._gpuforge", "compile", option, *map(str, arguments)]
        self.process = subprocess.Popen(
            argv,
            cwd=site,
            env=environment(site),
            stderr=subprocess.PIPE,
            preexec_fn=_hears,
        )
        eventually((tmp_path / "started").exists)
        self.compilers = [Path("/proc", pid) for pid in (tmp_path / "pids").read_text().split()]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the exit status, and what was said."""
        self.process.send_signal(number)
        said = self.process.communicate()[1].decode()
        return self.process.returncode, said

    def alive(self) -> bool:
        return any(pid.exists() for pid in self.compilers)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_is_one_line_ends_the_compiler_and_changes_nothing(site, tmp_path, number):
    run(site, "compile")
    compiling = Compiling(site, tmp_path)
    assert builds(site) == ["build", "work"]
    status, said = compiling.end(number)
    (library,) = (site.parent / "builds").rglob("libanswers.so")
    made_by = run(site, "explain").stdout.partition("made by ")[2].splitlines()[0]
    now = f"in use: user build ({library}), made by {made_by}"
    assert (status, said) == (130, f"error: answers: interrupted by {number.name}; {now}\n")
    eventually(lambda: not compiling.alive())
    assert (answer(site), builds(site)) == (42, ["build"])


def test_a_signal_that_is_ignored_ends_nothing(site, tmp_path):
    """As by nohup: the compilation goes on when the terminal is closed."""
    compiling = Compiling(site, tmp_path, before=["nohup"])
    compiling.process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert compiling.process.poll() is None
    assert "interrupted by SIGTERM" in compiling.end(signal.SIGTERM)[1]


@pytest.mark.parametrize("output", [False, True])
def test_what_a_killed_compilation_leaves_is_cleared(site, tmp_path, output):
    """Its compiler ends with it; its folder goes with the next compilation, while that of another one stays."""
    out = tmp_path / "out"
    arguments = ["--output", out] if output else []
    compiling = Compiling(site, tmp_path, *arguments)
    folder = out if output else next((site.parent / "builds/user/demo").iterdir())
    (left,) = folder.glob(".compile-*" if output else "work-*")
    assert run(site, "compile", *arguments).returncode == 0
    assert left.exists()
    assert compiling.end(signal.SIGKILL) == (-signal.SIGKILL, "")
    eventually(lambda: not compiling.alive())
    assert left.exists()
    assert run(site, "compile", *arguments).returncode == 0
    assert sorted(p.name.partition("-")[0] for p in folder.iterdir()) == (
        ["libanswers.so"] if output else ["active.json", "build", "lock"]
    )
