"""Work that is done by workers of a cluster: who does it, and what becomes of lost jobs and of what failed."""

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from remote_samples import REASON, OnGpu, action, work

from gpuforge.cluster import abilities, client, inputs
from gpuforge.cluster import worker as watchdog
from gpuforge.cluster.board import Board, Job, JobEnd, Run
from gpuforge.cluster.client import RemoteWorkers
from gpuforge.cluster.folder import FolderObjects
from gpuforge.cluster.worker import of_client, work_on
from gpuforge.errors import ActionError, MissingError, UsageError
from gpuforge.execute.outcome import ActionResult
from gpuforge.execute.runners.choice import RunnerSettings, SiteRequest, chosen
from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.store import FolderStore
from gpuforge.plan.action import Action, FileInput


class ThreadTicket:
    """A job that a thread does; it is wanted until it is dropped."""

    def __init__(self, run: Callable[[Callable[[], bool]], JobEnd]) -> None:
        self._dropped = threading.Event()
        self._end = JobEnd("")
        self._thread = threading.Thread(target=lambda: self._run(run))
        self._thread.start()

    def _run(self, run: Callable[[Callable[[], bool]], JobEnd]) -> None:
        self._end = run(lambda: not self._dropped.is_set())

    def wait(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def end(self) -> JobEnd:
        return self._end

    def drop(self) -> None:
        self._dropped.set()

    def ended(self) -> str:
        self._thread.join()
        return self._end.word


class ThreadCluster:
    """A cluster whose workers are threads; `does` stands in for what a worker does with its n-th job."""

    def __init__(self, *does: Callable[[Job, str, int], JobEnd]) -> None:
        self.does = [*does]
        self.tickets: list[ThreadTicket] = []
        self.avoided: list[Collection[str]] = []
        self.has = {abilities.identity(): 1.0, abilities.machine(): 1.0}

    def submit(self, job: Job, needs: abilities.Abilities, avoid: Collection[str]) -> ThreadTicket:
        self.avoided.append(tuple(avoid))
        name = next(each for each in self.workers() if each not in avoid)
        do = self.does.pop(0) if self.does else None
        self.tickets.append(
            ThreadTicket(lambda wanted: do(job, name, 1) if do else work_on(job, name, 1, wanted))
        )
        return self.tickets[-1]

    def workers(self) -> Mapping[str, abilities.Abilities]:
        return {"w1": self.has, "w2": self.has}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(client, "LOOK_S", 0.02)
    monkeypatch.setattr(watchdog, "BEAT_S", 0.02)
    monkeypatch.setenv("GPUFORGE_WORK", str(tmp_path / "work"))


def did(
    tmp_path: Path,
    cluster: ThreadCluster,
    of: Action,
    said: list[str] | None = None,
    limits: Limits = Limits(),  # noqa: B008  it is frozen
) -> ActionResult:
    run = Run("run", "p", "c", limits, cache=tmp_path)
    at = of_client(run, tmp_path, FolderStore(tmp_path / "store"))
    with RemoteWorkers(run, at, cluster, {}, is_remote=False).begun() as workers:
        result = workers.do(work(of), tmp_path / "logs/act.log", (said if said is not None else []).append)
    for ticket in cluster.tickets:
        ticket.ended()
    assert at.objects.names("runs") == []
    return result


def lose(job: Job, worker: str, cpus: int) -> JobEnd:
    """Take a job and be gone."""
    Board(FolderObjects(job.run.cache / "board"), job.run.id, job.name).take(worker)  # type: ignore[operator]
    return JobEnd("gone")


def test_work_is_done_by_a_worker_and_its_log_is_copied(tmp_path):
    result = did(tmp_path, ThreadCluster(), action())
    assert (result.state, result.reason) == ("done", REASON)
    assert result.log
    assert result.log.read_text().endswith("\n\nhello\n")
    again = did(tmp_path, ThreadCluster(), action())
    assert (again.state, again.log) == ("reused", None)


def test_room_is_taken_before_work_begins_and_free_when_it_ends(tmp_path):
    """Or an action more than there are free workers is submitted, and waits behind a long one."""
    run = Run("run", "p", "c", Limits(), cache=tmp_path)
    at = of_client(run, tmp_path, FolderStore(tmp_path / "store"))
    with RemoteWorkers(run, at, ThreadCluster(), {}, is_remote=True).begun() as workers:
        first, second, third = (replace(action(), id=name) for name in "abc")
        assert [workers.take_room(each) for each in (first, second, third)] == [True, True, False]
        assert workers.take_room(
            replace(third, step=OnGpu())
        )  # nobody can do it: one is submitted, and says so
        workers.do(work(first), tmp_path / "log", lambda _: None)
        assert workers.take_room(third)


def test_lost_jobs_are_done_again_as_often_as_the_limit_says(tmp_path):
    said: list[str] = []
    assert did(tmp_path, ThreadCluster(lose, lose, lose), action(), said).state == "done"
    assert [text for text in said if text] == ["another worker: w1 is gone"] * 3
    with pytest.raises(ActionError) as error:
        did(tmp_path, ThreadCluster(*[lose] * 4), action("pass"))
    assert str(error.value) == (
        "cell/act was given up after 4 workers were lost with it (w1); the last: gone\n"
        "  hint: the workers' own logs show why they ended; most often memory ran out"
    )


def test_a_job_that_is_unfit_for_one_worker_goes_to_the_next_and_to_no_other(tmp_path):
    of = action(inputs={"cxx": FileInput(tmp_path / "g++", "g++ (x)", program="compiler")})
    cluster = ThreadCluster()
    with pytest.raises(MissingError) as error:
        did(tmp_path, cluster, of)
    missing = f"has no {tmp_path / 'g++'}"
    assert str(error.value) == (
        f"no worker can run cell/act: worker w1 {missing}; worker w2 {missing}\n  hint: {inputs.HINT}"
    )
    assert cluster.avoided == [(), ("w1",)]


@pytest.mark.thorough
def test_an_action_of_a_worker_ends_when_its_time_is_over(tmp_path):
    mark = tmp_path / "pid"
    code = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    result = did(tmp_path, ThreadCluster(), action(code), limits=Limits(seconds=3.6))
    assert (result.state, str(result.error)) == (
        "failed",
        "cell/act ran longer than 0.001 h and was stopped\n  hint: --timeout allows more",
    )
    assert not Path("/proc", mark.read_text()).exists()


@pytest.mark.thorough
def test_an_action_that_no_worker_takes_in_its_time_is_given_up(tmp_path):
    over = threading.Event()
    cluster = ThreadCluster(lambda *_: JobEnd(str(over.wait(60))))
    with pytest.raises(MissingError) as error:
        did(tmp_path, cluster, action(), limits=Limits(seconds=0.36))
    over.set()
    assert str(error.value) == (
        "cell/act waited 0.0001 h and no worker started it\n"
        "  hint: start workers that can do it, or allow more time by --timeout"
    )


def test_a_job_given_twice_by_the_engine_is_done_once(tmp_path):
    def twice(job: Job, worker: str, cpus: int) -> JobEnd:
        end = work_on(job, worker, cpus, lambda: True)
        assert work_on(job, "w2", cpus, lambda: True) == JobEnd("taken before")
        return end

    assert did(tmp_path, ThreadCluster(twice), action()).state == "done"


def test_an_action_that_is_given_up_is_stopped_by_its_worker_which_removes_its_objects(tmp_path):
    mark = tmp_path / "pid"
    of = action(f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    cluster = ThreadCluster()
    run = Run("run", "p", "c", Limits(), cache=tmp_path)
    at = of_client(run, tmp_path, FolderStore(tmp_path / "store"))
    with RemoteWorkers(run, at, cluster, {}, is_remote=False).begun() as workers:

        def stop() -> None:
            while not (mark.exists() and mark.read_text()):
                time.sleep(0.02)
            workers.stop(of.id)

        thread = threading.Thread(target=stop)
        thread.start()
        assert workers.do(work(of), tmp_path / "act.log", lambda _: None).state == "cancelled"
        thread.join()
        assert cluster.tickets[0].ended() == "its client does not want it any more"
        assert at.objects.names("runs") == ["runs/run/begun"]
    assert not Path("/proc", mark.read_text()).exists()


@pytest.mark.parametrize("is_over", [False, True])
def test_a_worker_that_takes_a_job_late_does_not_do_it_again(monkeypatch, tmp_path, is_over):
    """It saw the client, and before it took the job the client had the result, or had even ended the run."""
    take, late = Board.take, threading.Event()

    def take_late(board: Board, worker: str) -> bool:
        assert worker == "w1" or late.wait(60)
        return take(board, worker)

    late_end: list[JobEnd] = []

    def twice(job: Job, worker: str, cpus: int) -> JobEnd:
        second = threading.Thread(target=lambda: late_end.append(work_on(job, "w2", cpus, lambda: True)))
        seconds.append(second)
        second.start()
        return work_on(job, worker, cpus, lambda: True)

    seconds: list[threading.Thread] = []
    monkeypatch.setattr(Board, "take", take_late)
    cluster = ThreadCluster(twice)
    run = Run("run", "p", "c", Limits(), cache=tmp_path)
    at = of_client(run, tmp_path, FolderStore(tmp_path / "store"))
    code = f"open({str(tmp_path / 'count')!r}, 'a').write('x'); raise SystemExit(1)"
    with RemoteWorkers(run, at, cluster, {}, is_remote=False).begun() as workers:
        assert workers.do(work(action(code)), tmp_path / "act.log", lambda _: None).state == "failed"
        if not is_over:
            late.set()
            seconds[0].join()
    late.set()
    seconds[0].join()
    assert late_end[0].word.startswith("it finds no such run in the store " if is_over else "taken before")
    assert at.objects.names("runs") == []
    assert (tmp_path / "count").read_text() == "x"


def test_a_worker_that_sees_another_store_says_so(tmp_path):
    def elsewhere(job: Job, worker: str, cpus: int) -> JobEnd:
        return work_on(
            job._replace(run=job.run._replace(cache=tmp_path / "other")), worker, cpus, lambda: True
        )

    with pytest.raises(ActionError, match=r"the last: it finds no such run in the store .*/other/board"):
        did(tmp_path, ThreadCluster(*[elsewhere] * 4), action())


def test_workers_without_this_gpuforge_are_refused_at_the_start(tmp_path):
    cluster = ThreadCluster()
    cluster.has = {abilities.Ability("gpuforge", "0.0.9 (code 0) on Python 3.12"): 1.0}
    run = Run("run", "p", "c", Limits(), cache=tmp_path)
    at = of_client(run, tmp_path, FolderStore(tmp_path / "store"))
    with pytest.raises(
        MissingError, match=r"no worker runs the gpuforge of this client, .*: w1 has gpuforge 0\.0\.9"
    ):
        RemoteWorkers(run, at, cluster, {}, is_remote=True).refuse_others()


@pytest.mark.thorough
def test_a_worker_that_ends_while_it_is_started_is_a_message(monkeypatch):
    cluster = pytest.importorskip("gpuforge.cluster.dask_cluster")

    def ended(**_: object) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(cluster, "LocalCluster", ended)
    with pytest.raises(MissingError) as error, cluster.started(1):
        pass
    assert str(error.value) == (
        "dask's workers on this machine were not started: Nanny failed to start.\n"
        "  hint: run the same command again; if memory ran out, try a smaller --jobs"
    )


def test_a_run_without_distributed_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingError) as error:
        chosen("dask").sites(SiteRequest([], [], False, False, tmp_path, None, lambda _: None))
    assert str(error.value) == (
        "--runner dask needs the Python package distributed, which is not installed\n"
        "  hint: pip install distributed cryptography, or gpuforge with its extra dask"
    )


@pytest.mark.thorough
def test_a_scheduler_without_a_shared_store_is_refused(tmp_path):
    settings = RunnerSettings("p", tmp_path, {}, Limits(), scheduler="tcp://127.0.0.1:1")
    with (
        pytest.raises(UsageError, match="--scheduler needs a store that its workers share") as error,
        chosen("dask").workers([], settings, FolderStore(tmp_path / "store")),
    ):
        raise AssertionError
    assert "set GPUFORGE_STORE to" in error.value.diagnostics[0].hint


def test_what_a_killed_client_left_is_removed_by_a_later_one(tmp_path):
    objects = FolderObjects(tmp_path)
    for name in (
        "runs/old/begun",
        "runs/old/job/log-0",
        "runs/live/begun",
        "runs/live/job/end",
        "runs/own/begun",
    ):
        objects.put(name, b"")
    for name in ("runs/old/begun", "runs/old/job/log-0", "runs/live/job/end"):
        os.utime(tmp_path / name, (1e9, 1e9))
    client.sweep(objects, "runs/own/begun")
    assert objects.names("runs") == ["runs/live/begun", "runs/live/job/end", "runs/own/begun"]


def test_a_job_whose_worker_is_gone_is_lost_while_the_engine_waits_for_another(monkeypatch, tmp_path):
    monkeypatch.setattr(client, "_WORKERS_S", 0.1)
    board, over = Board(FolderObjects(tmp_path), "run", "job"), threading.Event()
    board.take("w1")
    ticket = ThreadTicket(lambda _: JobEnd(str(over.wait(60))))
    ended = client.follow(board, ticket, tmp_path / "log", threading.Event(), lambda _: None, lambda: ["w2"])
    over.set()
    assert ended == ("w1", JobEnd("it left the scheduler"))


def test_a_long_job_is_looked_at_seldom(monkeypatch, tmp_path):
    """Where the store is a bucket, a look each second at a hundred jobs takes a whole processor."""
    clock = [0.0]
    looks: list[float] = []

    class Hour:
        def wait(self, seconds: float) -> bool:
            clock[0] += seconds
            return clock[0] >= 3600

        def end(self) -> JobEnd:
            return JobEnd("gone")

        def drop(self) -> None: ...

    class Seen(Board):
        def logged(self, start: int) -> Iterator[bytes]:
            looks.append(clock[0])
            return iter(())

    board = Seen(FolderObjects(tmp_path), "run", "job")
    board.take("w1")
    monkeypatch.setattr(client, "LOOK_S", 1.0)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    ended = client.follow(board, Hour(), tmp_path / "log", threading.Event(), lambda _: None, lambda: ["w1"])
    assert ended == ("w1", JobEnd("gone"))
    assert max(b - a for a, b in pairwise(looks[:20])) <= 2
    assert len(looks) < 600
