"""dask as an engine with workers; the only package of gpuforge that imports `distributed`."""

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

import dask
from distributed import Client, Future, LocalCluster, Security, get_worker
from distributed.client import ClosedClientError
from distributed.core import Status

from gpuforge.cluster import preload
from gpuforge.cluster.abilities import Abilities, Ability, lacking
from gpuforge.cluster.board import Job, JobEnd
from gpuforge.cluster.preload import CPUS
from gpuforge.cluster.worker import work_on
from gpuforge.errors import MissingError

_CONNECT_S = 30  # seconds that a scheduler may take to answer
_WORD_S = 5
# of all jobs' keys; dask expects the same duration of all, and so distributes them evenly
_GROUP = "gpuforge"
_ERRORS = (
    ClosedClientError,
    OSError,
    TimeoutError,
    ValueError,
    RuntimeError,
    TypeError,
)  # of a connection that is gone
_AT_WORK = {Status.running, Status.paused, Status.closing_gracefully}
_OWN: dict[str, object] = {
    "distributed.worker.memory.terminate": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.admin.log-format": "%(message)s",
}


class DaskTicket:
    """A task of dask. `is_stranded` returns whether all workers that it may run on are gone."""

    def __init__(self, future: Future[JobEnd], is_stranded: Callable[[], bool]) -> None:
        self._future = future
        self._is_stranded = is_stranded
        self._over = threading.Event()
        future.add_done_callback(lambda _: self._over.set())

    def wait(self, seconds: float) -> bool:
        """Wait at most so long, and return whether dask has finished with it."""
        return self._over.wait(seconds) or self._is_stranded()

    def end(self) -> JobEnd:
        """Return what `work_on` returned, or a word for a lost task: an error's text."""
        if self._future.status == "finished":
            with suppress(Exception):
                end: JobEnd = self._future.result(timeout=_WORD_S)
                return end
        if self._future.status == "error":
            return JobEnd(str(self._future.exception()).strip().partition("\n")[0])
        return JobEnd(f"the task is {self._future.status}")

    def drop(self) -> None:
        """Let dask forget it; the worker sees that it is cancelled."""
        with suppress(*_ERRORS):
            self._future.cancel()


class DaskCluster:
    """The workers of a scheduler."""

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self.address = address

    def submit(self, job: Job, needs: Abilities, avoid: Collection[str]) -> DaskTicket:
        """Give a job to a worker; the task's key has the action's name."""
        fit: set[str] = set()
        if avoid:
            others = ((name, has) for name, has in self.workers().items() if name not in avoid)
            fit = {name for name, has in others if not [*lacking(needs, has)]}
        try:
            future = self._client.submit(
                run,
                job,
                key=(_GROUP, job.name),
                pure=False,
                retries=0,
                resources={each.label: amount for each, amount in needs.items()},
                workers=[*fit] or None,
                priority=job.work.priority,
            )
        except _ERRORS as error:
            raise _unreachable(self.address, error) from error
        # Without this, dask would wait for the same workers for ever, even if others join.
        return DaskTicket(future, lambda: bool(fit) and fit.isdisjoint(self.workers()))

    def workers(self) -> Mapping[str, Abilities]:
        """Return the abilities of each present worker, by its address."""
        scheduler = self._client.scheduler
        if scheduler is None:
            raise _unreachable(self.address, OSError("the connection is closed"))
        try:  # `scheduler_info` may be replaced by one that lists no workers
            found = self._client.sync(scheduler.identity, n_workers=-1)["workers"]
        except _ERRORS as error:
            raise _unreachable(self.address, error) from error
        return {
            name: {Ability.of_label(label): amount for label, amount in each.get("resources", {}).items()}
            for name, each in found.items()
        }


@contextmanager
def connected(address: str) -> Iterator[DaskCluster]:
    """Use the workers of a scheduler during a `with`."""
    # gpuforge's own messages tell users what they need
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set(_OWN):
        try:
            client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except _ERRORS as error:
            raise _unreachable(address, error) from error
        with client:
            yield DaskCluster(client, address)


@contextmanager
def started(workers: int) -> Iterator[DaskCluster]:
    """Start a scheduler and workers, processes of this machine, for the time of a `with`."""
    with (
        dask.config.set(_OWN),
        _local(workers) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield DaskCluster(client, cluster.scheduler_address)


def _local(workers: int) -> LocalCluster:
    try:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,
            security=Security.temporary(),  # other users of this machine must not be able to run code as this one
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            preload=[preload.__name__],
        )
    except _ERRORS as error:  # dask restarts processes that end later
        raise MissingError.of(
            f"dask's workers on this machine were not started: {error}",
            hint="run the same command again; if memory ran out, try a smaller --jobs",
        ) from error


def _unreachable(address: str, error: Exception) -> MissingError:
    what = str(error).strip().partition("\n")[0] or type(error).__name__
    why = "the connection was lost" if isinstance(error, (KeyError, ClosedClientError)) else what
    return MissingError.of(
        f"the scheduler {address} cannot be reached: {why}",
        hint="check its address, and that `dask scheduler` runs there",
    )


def run(job: Job) -> JobEnd:
    """Do a job on this worker, until dask cancels it: because its client does, or that or the scheduler is gone."""
    worker = get_worker()
    task = worker.state.tasks[worker.get_current_task()]
    cpus = int(worker.state.total_resources.get(CPUS, 0)) or len(os.sched_getaffinity(0))
    return work_on(
        job,
        worker.address,
        cpus,
        lambda: task.state == "executing" and worker.status in _AT_WORK,
    )
