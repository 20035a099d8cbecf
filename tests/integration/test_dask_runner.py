"""`--runner dask` with real schedulers and workers: results, failures, logs, and who may use them."""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import builds
import dask
import psutil
import pytest
from dask_build import Build, started, step, until
from distributed import Client, Security

from gpuforge import digest
from gpuforge.cluster import abilities, dask_cluster
from gpuforge.cluster.dask_cluster import started as started_here
from gpuforge.plan.action import FileInput

pytestmark = pytest.mark.slow


def pause(name: str, seconds: float) -> Any:
    """Return a job of which only this is looked at."""
    work = SimpleNamespace(priority=0)
    return SimpleNamespace(name=f"{name}-1", seconds=seconds, work=work)


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFORGE_WORK", str(tmp_path / "work"))


def test_workers_that_are_there_are_always_listed(tmp_path):
    with dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}), started_here(1) as cluster:
        assert all(cluster.workers() for _ in range(300))


def test_a_job_behind_a_long_one_goes_to_a_worker_that_is_free(monkeypatch):
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


def test_a_job_that_only_lost_workers_may_do_is_given_back(monkeypatch, tmp_path):
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


def test_what_workers_make_fail_and_log_is_what_local_processes_do(tmp_path):
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


def test_other_users_cannot_use_the_cluster_of_this_machine():
    with started_here(1) as here:
        assert here.address.startswith("tls://127.0.0.1:")
        own = here.address.replace("tls://", "tcp://")
        for address, security in ((own, None), (here.address, Security.temporary())):
            with pytest.raises((OSError, TimeoutError)):
                Client(address, timeout=3, security=security)


@pytest.mark.toolkit
@pytest.mark.network
def test_a_wheel_by_workers_is_the_same_as_by_local_processes(tmp_path):
    """The recipe saxpy for CUDA 13; the toolkit is fetched twice."""
    made = {}
    for name, runner in {
        "local": ["--runner", "local"],
        "dask": ["--runner", "dask", "--jobs", "2"],
    }.items():
        options = ["--cuda", 13, "--archs", 90, "--python", builds.PYTHON, "--no-test", *runner]
        dist = tmp_path / f"dist-{name}"
        builds.build(builds.RECIPES / "saxpy", *options, "-o", dist, cache=tmp_path / name)
        (wheel,) = dist.glob("*.whl")
        made[name] = (wheel.name, digest.of_file(wheel))
    assert made["dask"] == made["local"]
