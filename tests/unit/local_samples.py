"""A task for the local runner, and whether its processes are gone."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from gpuforge.execute.runners.runner import InputPath, Task
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
        "compile",
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


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(60)
"""


def gone(pid: int) -> bool:
    for _ in range(3000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":  # nobody in this container reaps orphans
            return True
        time.sleep(0.02)
    return False


def pids(log: Path) -> list[int]:
    for _ in range(3000):
        lines = log.read_text().splitlines() if log.exists() else []
        if lines and lines[-1].replace(" ", "").isdigit():
            return [int(word) for word in lines[-1].split()]
        time.sleep(0.02)
    raise AssertionError(log.read_text())
