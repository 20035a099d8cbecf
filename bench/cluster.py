"""Measure what a cluster costs and brings: actions of known length by local processes, and by dask's workers.

    python bench/cluster.py [--store folder|s3]

Each action sleeps, so that workers do not compete for the processors of this machine. Prints Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "integration"))

import psutil
from dask_build import Silent, cluster
from s3_service import s3_server

from gpuforge import digest
from gpuforge.cluster.shared_store import opened
from gpuforge.execute.engine import Engine
from gpuforge.execute.ledger import Ledger
from gpuforge.execute.outcome import ActionResult, Step
from gpuforge.execute.runners.choice import RunnerSettings, chosen
from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.store import FolderStore, Store
from gpuforge.plan.action import Action

SIZES = (1, 2, 4)  # workers
LENGTHS = (1.0, 5.0)  # seconds of an action
EACH = 6  # actions for each worker
SHORT = 50  # actions of no length, by one worker


@dataclass(frozen=True)
class Took:
    """What actions took: seconds by the clock, and of the client's processor."""

    clock: float
    client: float


class Strict(Silent):
    """An observer that shows nothing; every action must succeed."""

    def on_finish(self, action: Action, result: ActionResult) -> None:
        """Raise for an action that failed."""
        if result.state != "done":
            raise RuntimeError(f"{action.id} is {result.state}: {result.error}")


def steps(count: int, seconds: float) -> list[Step]:
    """Return actions that sleep, and were never run before."""
    salt, found = uuid4().hex, []
    for number in range(count):
        script = f'sleep {seconds}; echo {salt}-{number} > "$0"'
        action = Action(
            f"{salt[:6]}-{number}",
            "build",
            f"sleep {seconds} s",
            ("/bin/sh", "-c", script, "${out:out}"),
            outputs=("out",),
            env={"PATH": "/usr/bin:/bin"},
        )
        found.append(Step(action, digest.of_data([salt, number])))
    return found


def measured(folder: Path, count: int, seconds: float, workers: int, scheduler: str | None) -> Took:
    """Run new actions by so many local processes, or by the workers of a scheduler."""
    cache = folder / "client"
    settings = RunnerSettings(
        "bench",
        cache,
        os.environ,
        Limits(),
        jobs=workers,
        scheduler=scheduler,
        shared=os.environ["GPUFORGE_STORE"],
    )
    store: Store = FolderStore(cache / "store")
    if scheduler:
        store = opened(cache / "store", os.environ["GPUFORGE_STORE"])
    with chosen("dask" if scheduler else "local").workers([], settings, store) as found:
        begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
        outcome = Engine(
            steps(count, seconds),
            store=store,
            ledger=Ledger(cache / "ledger.jsonl"),
            workers=found,
            jobs=workers,
            observer=Strict(),
            logs=cache / "logs",
            project="bench",
        ).run()
        after = resource.getrusage(resource.RUSAGE_SELF)
        clock = time.monotonic() - begin
    if not outcome.ok:
        raise RuntimeError("not all actions succeeded")
    client = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(clock, client)


def each(seconds: float) -> str:
    """Return what one of the short actions took, in milliseconds."""
    return f"{seconds / SHORT * 1000:.0f}"


def worker_seconds(nannies: Sequence[psutil.Process]) -> float:
    """Return the processor's time that the workers have used."""
    times = [child.cpu_times() for each in nannies for child in each.children()]
    return float(sum(each.user + each.system + each.children_user + each.children_system for each in times))


def tables(folder: Path) -> list[str]:
    """Measure all, and return the rows."""
    rows = [
        "| actions | runner | s | ms per action | client, CPU ms per action | worker, CPU ms per action |"
    ]
    rows.append("|---|---|---|---|---|---|")
    here = measured(folder, SHORT, 0, 1, None)
    rows.append(
        f"| {SHORT} of 0 s | one local process | {here.clock:.1f} | {each(here.clock)} | {each(here.client)} | |"
    )
    with cluster(folder, 1) as (address, begun):
        nannies = [psutil.Process(each.pid) for each in begun[1:]]
        measured(folder, 2, 0, 1, address)  # the worker has loaded what it needs
        before = worker_seconds(nannies)
        there = measured(folder, SHORT, 0, 1, address)
        worker = worker_seconds(nannies) - before
    rows.append(
        f"| {SHORT} of 0 s | dask, 1 worker | {there.clock:.1f} | {each(there.clock)} | {each(there.client)} "
        f"| {each(worker)} |"
    )
    rows += [
        "",
        "| length of an action | workers | local s | efficiency | dask s | efficiency | client, CPU s |",
    ]
    rows.append("|---|---|---|---|---|---|---|")
    for workers in SIZES:
        with cluster(folder, workers) as (address, _):
            for length in LENGTHS:
                measured(folder, 2 * workers, 0.5, workers, address)
                count = EACH * workers
                local = measured(folder, count, length, workers, None)
                dask = measured(folder, count, length, workers, address)
                ideal = EACH * length
                rows.append(
                    f"| {length:g} s | {workers} | {local.clock:.1f} | {ideal / local.clock:.2f} "
                    f"| {dask.clock:.1f} | {ideal / dask.clock:.2f} | {dask.client:.1f} |"
                )
    return rows


def two_clients(folder: Path, address: str) -> str:
    """Have a second client join a first one on the same workers, and return what both took."""
    workers, length, later = SIZES[-1], 10.0, 14.0
    begin, pids = time.monotonic(), []
    for name, count, wait in (("first", 4 * workers, 0.0), ("second", 2 * workers, later)):
        if pid := os.fork():
            pids.append(pid)
            continue
        status = 1
        try:
            time.sleep(wait)
            measured(folder / name, count, length, workers, address)
            status = 0
        finally:
            os._exit(status)
    if any(os.waitpid(pid, 0)[1] for pid in pids):
        raise RuntimeError("a client failed")
    took, ideal = time.monotonic() - begin, 6 * length
    return f"Two clients on {workers} workers, the second {later:g} s later: {took:.0f} s instead of {ideal:g} s."


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", choices=("folder", "s3"), default="folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        env = {"GPUFORGE_STORE": str(folder / "store"), "GPUFORGE_WORK": str(folder / "work")}
        if given.store == "s3":
            server = stack.enter_context(s3_server(folder / "s3"))
            env |= {**server.env, "GPUFORGE_STORE": f"{server.url}/store"}
        os.environ.update(env)
        rows = tables(folder)
        with cluster(folder, SIZES[-1]) as (address, _):
            sys.stdout.write("\n".join([*rows, "", two_clients(folder, address), ""]))


if __name__ == "__main__":
    main()
