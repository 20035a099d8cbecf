"""`--runner dask` with real schedulers and workers: results, failures, and workers and clients that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import psutil
import pytest
from distributed import Client, Security

from gpuforge import digest
from gpuforge.containers.connect import connect
from gpuforge.containers.leftovers import ACTION, OWNER
from gpuforge.execute import engine
from gpuforge.execute.ledger import FileLedger
from gpuforge.execute.outcome import ActionResult, Outcome, Step
from gpuforge.execute.remote import abilities
from gpuforge.execute.remote.watchdog import LEASE_S
from gpuforge.execute.runners.choice import Environment, SiteRequest, chosen
from gpuforge.execute.runners.dask import cluster as dask_cluster
from gpuforge.execute.runners.dask.cluster import started as started_here
from gpuforge.execute.runners.docker import setup as docker_setup
from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.shared.opening import opened
from gpuforge.execute.store import FolderStore
from gpuforge.plan.action import Action, ActionInput, FileInput
from gpuforge.plan.site import ContainerImage

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PRELOAD = "gpuforge.execute.runners.dask.preload"
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


CLIENT = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
import test_dask_runner as t
if __name__ == "__main__":
    t.Build(Path({top!r}), {more}).run(t.step("act", t.ONCE.format(mark={mark!r}, times=9)))
"""


def pause(name: str, seconds: float) -> Any:
    """Return a job of which only this is looked at."""
    work = SimpleNamespace(action=SimpleNamespace(priority=0))
    return SimpleNamespace(name=f"{name}-1", seconds=seconds, work=work)


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
        environment = Environment(
            "p", self.top, {}, Limits(seconds=600), compiled="c", jobs=self.workers, **self.environment
        )
        with chosen("dask").workers(self.sites, environment, self.store) as workers:
            return engine.run(
                steps,
                store=self.store,
                ledger=FileLedger(self.top / "ledger"),
                workers=workers,
                jobs=self.workers,
                observer=self.observer,
                logs=self.top / "logs",
                project="p",
            )


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFORGE_WORK", str(tmp_path / "work"))


def started(mark: Path, count: int) -> int:
    """Wait until the action has begun so many times; return its process."""
    return until(lambda: int(lines[count - 1]) if len(lines := _lines(mark)) >= count else None)


def until(look: Callable[[], Any], seconds: float = 180.0) -> Any:
    end = time.monotonic() + seconds
    while (found := look()) is None:
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)
    return found


def gone(pid: int) -> bool | None:
    """Return True once a process has ended."""
    return None if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" else True


def _lines(mark: Path) -> list[str]:
    return mark.read_text().split() if mark.exists() else []


def worker_of(pid: int) -> psutil.Process:
    """Return the worker's process of an action: its keeper's, whose parent makes keepers for the worker."""
    return psutil.Process(pid).parents()[2]


@contextmanager
def beside(work: Callable[[], None]) -> Iterator[None]:
    """Do something on another thread; its error is the test's."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  it is raised below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()
    if errors:
        raise errors[0]


@contextmanager
def cluster(top: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and workers as users do; each worker has a cache folder of its own."""
    file = top / "scheduler.json"
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


def test_workers_that_are_there_are_always_listed(tmp_path: Path) -> None:
    with dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}), started_here(1) as cluster:
        assert all(cluster.workers() for _ in range(300))


def test_a_job_behind_a_long_one_goes_to_a_worker_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clients may have twice as many jobs with dask as there are workers."""

    def nap(job: Any) -> None:
        time.sleep(job.seconds)

    monkeypatch.setattr(dask_cluster, "run", nap)
    needs = {abilities.machine(): 1}
    with started_here(2) as workers:
        until(lambda: len(workers.workers()) == 2 or None)
        workers.submit(pause("first", 6.0), needs, ())
        assert workers.submit(pause("second", 3.0), needs, ()).wait(30)
        workers.submit(pause("long", 20.0), needs, ())
        assert workers.submit(pause("late", 0.0), needs, ()).wait(10)  # once the first has ended


def test_a_job_that_only_lost_workers_may_do_is_given_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mark = str(tmp_path / "mark")

    def hang(job: Any) -> None:
        Path(mark).write_text(str(os.getpid()))
        time.sleep(job.seconds)

    monkeypatch.setattr(dask_cluster, "run", hang)
    with started_here(1) as workers:
        until(lambda: len(workers.workers()) == 1 or None)
        ticket = workers.submit(pause("one", 60.0), {abilities.machine(): 1}, ["one that declined it"])
        psutil.Process(started(Path(mark), 1)).kill()  # the nanny starts another worker
        assert ticket.wait(0) or until(lambda: ticket.wait(1) or None, 30)


def test_what_workers_make_fail_and_log_is_what_local_processes_do(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "a.txt").write_text("hello")
    parts = tuple(digest.of_each(sources, [sources / "a.txt"]).items())
    read = "import sys; open(sys.argv[1], 'w').write(open(sys.argv[2] + '/a.txt').read())"
    steps = (
        step("one", read, inputs={"src": FileInput(sources, "d", ("a.txt",), parts)}),
        step("two", "import sys; open(sys.argv[1], 'w').write(open(sys.argv[2]).read() * 2)", "one"),
        step("bad", "print('boom'); raise SystemExit(3)"),
        step("none", "pass"),
    )
    build = Build(tmp_path)
    outcome = build.run(*steps)
    assert {name: result.state for name, result in outcome.results.items()} == {
        "one": "done",
        "two": "done",
        "bad": "failed",
        "none": "failed",
    }
    stored = build.store.get(steps[1].key)
    assert stored
    assert stored.path("out").read_text() == "hellohello"
    bad = outcome.results["bad"]
    assert (str(bad.error), bad.tail, bad.status) == (
        "bad failed with exit status 3\n  hint: its log shows the command and its output",
        ("boom",),
        3,
    )
    assert bad.log
    assert bad.log.read_text().startswith("# bad\n# in ")
    assert str(outcome.results["none"].error).startswith("none ended without an error but did not make out")
    assert [*(tmp_path / "board").rglob("*-*")] == []
    assert build.run(*steps[:2]).having("reused")


def test_an_action_whose_worker_is_killed_runs_again_on_another(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    build = Build(tmp_path)
    ended: list[int] = []

    def kill() -> None:
        pid = started(mark, 1)
        worker_of(pid).kill()
        until(lambda: gone(pid), 10)
        ended.append(pid)

    with beside(kill):
        outcome = build.run(step("act", ONCE.format(mark=str(mark), times=2)))
    assert outcome.ok, outcome.results
    assert len(_lines(mark)) == 2
    assert ended
    assert any(
        "another worker: tcp" in text or "another worker: tls" in text for text in build.observer.waits
    )


def test_an_action_that_loses_every_worker_fails_with_their_names(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    build = Build(tmp_path)

    def kill() -> None:
        for count in range(1, 5):
            worker_of(started(mark, count)).kill()

    with beside(kill):
        outcome = build.run(step("act", ONCE.format(mark=str(mark), times=9)))
    message = str(outcome.results["act"].error)
    assert message.startswith("act was given up after 4 workers were lost with it (t")
    until(lambda: all(gone(int(pid)) for pid in _lines(mark)) or None, 10)


def test_an_interrupted_run_stops_its_workers_at_once(tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    def interrupt() -> None:
        started(mark, 1)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        with beside(interrupt):
            outcome = Build(tmp_path).run(step("act", ONCE.format(mark=str(mark), times=9)))
    finally:
        signal.signal(signal.SIGINT, before)
    assert outcome.interrupted
    assert outcome.results["act"].state == "cancelled"
    until(lambda: gone(int(_lines(mark)[0])), 10)


def test_workers_on_this_machine_end_with_a_client_that_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    file = tmp_path / "client.py"
    file.write_text(
        CLIENT.format(here=str(Path(__file__).parent), top=str(tmp_path), mark=str(mark), more="")
    )
    with subprocess.Popen([sys.executable, file]) as client:
        pid = started(mark, 1)
        others = psutil.Process(client.pid).children(recursive=True)
        client.kill()
    until(lambda: gone(pid), 10)
    until(lambda: all(gone(each.pid) for each in others) or None, 20)


def test_workers_of_a_scheduler_share_a_store_and_stop_when_the_client_is_gone(tmp_path: Path) -> None:
    shared, mark = tmp_path / "shared", tmp_path / "mark"
    with cluster(tmp_path, 2) as (address, _):
        steps = [
            step("one", "import os, sys; open(sys.argv[1], 'w').write('made')"),
            *(
                step(
                    f"two{n}", "import sys; open(sys.argv[1], 'w').write(open(sys.argv[2]).read() * 2)", "one"
                )
                for n in range(3)
            ),
        ]
        build = Build(tmp_path / "a", scheduler=address, shared=str(shared))
        outcome = build.run(*steps)
        assert outcome.ok, [str(each.error) for each in outcome.results.values()]
        stored = build.store.get(steps[1].key)
        assert stored
        assert stored.path("out").read_text() == "mademade"
        again = Build(tmp_path / "b", scheduler=address, shared=str(shared)).run(*steps)
        assert {each.state for each in again.results.values()} == {"reused"}

        file = tmp_path / "client.py"
        file.write_text(
            CLIENT.format(
                here=str(Path(__file__).parent),
                top=str(tmp_path / "c"),
                mark=str(mark),
                more=f"scheduler={address!r}, shared={str(shared)!r}",
            )
        )
        with subprocess.Popen([sys.executable, file]) as client:
            pid = started(mark, 1)
            client.kill()
        until(lambda: gone(pid), LEASE_S + 20)


def test_a_scheduler_that_is_killed_ends_the_run_with_a_message(tmp_path: Path) -> None:
    shared, mark = tmp_path / "shared", tmp_path / "mark"
    with cluster(tmp_path, 1) as (address, begun):

        def kill() -> None:
            started(mark, 1)
            begun[0].kill()

        with beside(kill):
            build = Build(tmp_path / "a", scheduler=address, shared=str(shared))
            outcome = build.run(step("act", ONCE.format(mark=str(mark), times=9)))
        assert f"the scheduler {address} cannot be reached" in str(outcome.results["act"].error)
        until(lambda: all(gone(int(pid)) for pid in _lines(mark)) or None, LEASE_S + 20)


def test_other_users_cannot_use_the_cluster_of_this_machine() -> None:
    with started_here(1) as here:
        assert here.address.startswith("tls://127.0.0.1:")
        own = here.address.replace("tls://", "tcp://")
        for address, security in ((own, None), (here.address, Security.temporary())):
            with pytest.raises((OSError, TimeoutError)):
                Client(address, timeout=3, security=security)


@pytest.mark.toolkit
@pytest.mark.network
def test_a_wheel_by_workers_is_the_same_as_by_local_processes(tmp_path: Path) -> None:
    """The recipe saxpy for CUDA 13; the toolkit is fetched twice."""
    made = {}
    for name, options in {
        "local": ["--runner", "local"],
        "dask": ["--runner", "dask", "--jobs", "2"],
    }.items():
        environ = {**os.environ, "GPUFORGE_CACHE_DIR": str(tmp_path / name)}
        done = subprocess.run(
            [
                Path(sys.executable).with_name("gpuforge"),
                "build",
                ROOT / "recipes/saxpy",
                "--cuda",
                "13",
                "--archs",
                "90",
                "--python",
                f"{sys.version_info.major}.{sys.version_info.minor}",
                "--no-test",
                *options,
                "-o",
                tmp_path / f"dist-{name}",
            ],
            capture_output=True,
            text=True,
            check=False,
            env=environ,
        )
        assert done.returncode == 0, done.stderr
        (wheel,) = (tmp_path / f"dist-{name}").glob("*.whl")
        made[name] = (wheel.name, digest.of_file(wheel))
    assert made["dask"] == made["local"]


@pytest.mark.docker
def test_a_container_of_a_worker_that_is_killed_is_removed_and_the_action_runs_again(
    tmp_path: Path, test_image: str
) -> None:
    """The first container sleeps; in it the action cannot know how often it ran, but where it runs."""
    sites = docker_setup.sites(SiteRequest([test_image], True, False, tmp_path, None, lambda _: None))
    action = Action(
        "act",
        "build",
        "act",
        ("/bin/sh", "-c", "sleep 12; echo made > ${out:out}"),
        outputs=("out",),
        image=sites[0].id,
    )
    killed: list[str] = []

    def container() -> str | None:
        found = connect().containers.list(filters={"label": f"{ACTION}=act"})
        return str(found[0].id) if found else None

    def kill() -> None:
        first = until(container)
        owner = connect().containers.get(first).labels[OWNER].split()[1]
        psutil.Process(int(owner)).kill()
        until(lambda: container() != first or None, 30)
        killed.append(first)

    build = Build(tmp_path, workers=1, sites=sites)
    with beside(kill):
        outcome = build.run(Step(action, "0" * 64))
    assert outcome.ok, outcome.results["act"].error
    assert killed
    assert container() is None
