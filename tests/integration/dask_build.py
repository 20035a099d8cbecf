"""Runs of steps on dask's workers, schedulers to run them on, and what is seen of their processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuforge import digest
from gpuforge.cluster.shared_store import opened
from gpuforge.execute.engine import Engine
from gpuforge.execute.ledger import Ledger
from gpuforge.execute.outcome import ActionResult, Outcome, Step
from gpuforge.execute.runners.choice import RunnerSettings, chosen
from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.store import FolderStore
from gpuforge.plan.action import Action, ActionInput
from gpuforge.plan.site import ContainerImage

PRELOAD = "gpuforge.cluster.preload"
# The first to run it sleeps until it is ended; the next makes the output. Each writes down its process.
ONCE = """
import os, sys, time
mark = {mark!r}
with open(mark, "a") as stream:
    stream.write(f"{{os.getpid()}}\\n")
if len(open(mark).readlines()) < {times}:
    time.sleep(600)
open(sys.argv[1], "w").write("made")
"""


class Silent:
    def __init__(self) -> None:
        self.waits: list[str] = []

    def on_plan(self, steps: Sequence[Step], run: frozenset[str]) -> None: ...

    def on_start(self, action: Action, log: Path) -> None: ...

    def on_wait(self, action: Action, what: str) -> None:
        self.waits.append(what)

    def on_interrupt(self) -> None: ...

    def on_finish(self, action: Action, result: ActionResult) -> None: ...


def step(name: str, code: str, *needs: str, **more: Any) -> Step:
    inputs = {need: ActionInput(need, "out") for need in needs} | more.pop("inputs", {})
    argv = (sys.executable, "-c", code, "${out:out}", *(f"${{in:{each}}}" for each in inputs))
    return Step(
        Action(name, "build", name, argv, inputs=inputs, outputs=("out",), **more),
        digest.of_data([name, code]),
    )


class Build:
    """A run of some steps on workers of this machine, or of a scheduler."""

    def __init__(
        self, top: Path, workers: int = 2, sites: Sequence[ContainerImage] = (), **environment: Any
    ) -> None:
        self.sites = sites
        self.top = top
        shared = environment.get("shared")
        self.store = opened(top / "store", shared) if shared else FolderStore(top / "store")
        self.observer = Silent()
        self.workers = workers
        self.environment = environment

    def run(self, *steps: Step) -> Outcome:
        settings = RunnerSettings(
            "p", self.top, {}, Limits(seconds=600), compiled="c", jobs=self.workers, **self.environment
        )
        with chosen("dask").workers(self.sites, settings, self.store) as workers:
            return Engine(
                steps,
                store=self.store,
                ledger=Ledger(self.top / "ledger"),
                workers=workers,
                jobs=self.workers,
                observer=self.observer,
                logs=self.top / "logs",
                project="p",
            ).run()


def started(mark: Path, count: int) -> int:
    """Wait until the action has begun so many times; return its process."""
    return until(lambda: int(lines[count - 1]) if len(lines := _lines(mark)) >= count else None)


def until(look: Callable[[], Any], seconds: float = 180.0) -> Any:
    end = time.monotonic() + seconds
    while (found := look()) is None:
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)
    return found


def _lines(mark: Path) -> list[str]:
    return mark.read_text().split() if mark.exists() else []


@contextmanager
def cluster(top: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and workers as users do; each worker has a cache folder of its own."""
    file = top / "scheduler.json"
    file.unlink(missing_ok=True)
    dask = Path(sys.executable).with_name("dask")
    log = (top / "cluster.log").open("wb")
    begun = [
        subprocess.Popen(
            [
                dask,
                "scheduler",
                "--host",
                "127.0.0.1",
                "--port",
                "0",
                "--no-dashboard",
                "--scheduler-file",
                file,
            ],
            stdout=log,
            stderr=log,
        )
    ]
    try:
        until(lambda: file.exists() or None)
        for number in range(workers):
            environ = {**os.environ, "GPUFORGE_CACHE_DIR": str(top / f"cache-{number}")}
            command = [dask, "worker", "--scheduler-file", file, "--nthreads", "1", "--no-dashboard"]
            command += ["--local-directory", top / f"dask-{number}", "--preload", PRELOAD]
            begun.append(subprocess.Popen(command, env=environ, stdout=log, stderr=log))
        yield json.loads(file.read_text())["address"], begun
    finally:
        for each in begun:
            each.terminate()
        for each in begun:
            each.wait(30)
        log.close()
