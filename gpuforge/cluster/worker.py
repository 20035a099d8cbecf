"""The worker's side: takes a job, does its work as on the client's machine, and returns how it ended."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from gpuforge.cache_folder import cache_folder
from gpuforge.cluster.board import Board, Job, JobEnd, Run
from gpuforge.cluster.folder import connect
from gpuforge.cluster.inputs import UnfitError, programs_here, received
from gpuforge.cluster.objects import Objects, ObjectsError
from gpuforge.cluster.shared_store import SharedStore, opened
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError, MissingError
from gpuforge.execute.outcome import ActionResult
from gpuforge.execute.runners.choice import RunnerSettings, on_worker
from gpuforge.execute.runners.runner import Runner
from gpuforge.execute.store import FolderStore, Store
from gpuforge.execute.work import Work, Workplace, failed_by
from gpuforge.plan.action import FileInput
from gpuforge.toolchains import sccache


def work_on(job: Job, worker: str, cpus: int, is_wanted: Callable[[], bool]) -> JobEnd:
    """Do a job on this machine, for the worker of that name, with so many processors, as long as it is wanted.

    A job that another worker had before is not done: its client handles that.
    """
    at = of_worker(job.run, os.environ)
    board = Board(at.objects, job.run.id, job.name)
    no_run = JobEnd(f"it finds no such run in the store {at.objects.url}")
    if not board.has_begun():  # the run is over, or this is another store
        return no_run
    if not board.take(worker):
        return JobEnd("taken before")
    if not board.has_begun():  # it ended just now, and `taken` is already removed
        board.clear()
        return no_run
    with tempfile.TemporaryDirectory(prefix="gpuforge-job-") as folder:
        log = Path(folder, "log")
        try:
            work = _here(job, at.store, cpus)
            failed = job.run.failed if job.run.cache else None
            variables = sccache.configured(os.environ, at.cache, job.run.compiled, job.run.store)
            place = Workplace(at.store, _runner(job, at, cpus, failed, variables))
        except UnfitError as error:
            return JobEnd("unfit", _unfit(job.work, worker, error), unfit=True)
        except (OSError, GpuforgeError) as error:
            return _ended(failed_by(error, job.work, log, 0.0))
        with Watchdog(board, log, place.cancel, is_wanted) as watchdog:
            begin = time.monotonic()
            try:
                result = place.do(work, log, lambda _: None)
            except (OSError, GpuforgeError) as error:
                result = failed_by(error, work, log, time.monotonic() - begin)
    if watchdog.is_unwanted:
        board.clear()
        return JobEnd("its client does not want it any more")
    return _ended(result)


def _ended(result: ActionResult) -> JobEnd:
    return JobEnd(result.state, replace(result, log=None))


def _here(job: Job, store: Store, cpus: int) -> Work:
    """Return the work with the paths of this machine: files from the store, programs that are installed here."""
    action = job.work.action
    sources = programs_here(action)
    for name, key in job.files.items():
        value = action.inputs[name]
        assert isinstance(value, FileInput)  # noqa: S101  the client sends no others
        sources[name] = received(value, key, store, action.id)
    return replace(job.work, sources=sources, jobs=job.work.jobs if job.run.cache else cpus)


def _runner(
    job: Job, at: SharedPlaces, cpus: int, failed: Path | None, variables: Mapping[str, str]
) -> Runner:
    run = job.run
    limits = run.limits if run.cache else run.limits._replace(cpus=cpus)
    settings = RunnerSettings(run.project, at.cache, variables, limits, failed)
    setup = on_worker(in_image=job.image is not None)
    if job.image is None:
        return setup.runner((), settings)
    if missing := setup.missing(job.image):
        raise UnfitError(
            Diagnostic(missing, None, f"gpuforge images build {job.image.name}, on every worker")
        )
    return setup.runner((job.image,), settings)


def _unfit(work: Work, worker: str, error: MissingError) -> ActionResult:
    first = error.diagnostics[0]
    message = f"worker {worker} {first.message}"
    status = MissingError.exit_code
    return ActionResult(
        work.action.id, "failed", work.reason, error=first._replace(message=message), status=status
    )


BEAT_S = 1.0  # seconds between two looks
_PIECE = 1 << 20  # bytes of a log that are sent at once


class Watchdog:
    """Watches one job during a `with`; `stop` ends the running command."""

    def __init__(
        self, board: Board, log: Path, stop: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> None:
        self._board = board
        self._log = log
        self._stop = stop
        self._is_wanted = is_wanted
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._read_to = 0
        self._pieces = 0
        self.is_unwanted = False  # whether it ended the job because its client, or the engine, gave it up

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if not self.is_unwanted:
            self._hand_on()

    def _watch(self) -> None:
        while not self._over.wait(BEAT_S):
            with suppress(OSError, ObjectsError):  # the store cannot be reached now
                self._hand_on()
            self.is_unwanted = not self._is_wanted()
            if self.is_unwanted:
                self._stop()
                return

    def _hand_on(self) -> None:
        """Write what is new in the log to the board."""
        try:
            with self._log.open("rb") as stream:
                stream.seek(self._read_to)
                while text := stream.read(_PIECE):
                    self._board.log(self._pieces, text)
                    self._read_to += len(text)
                    self._pieces += 1
        except FileNotFoundError:  # nothing was started yet
            return


class SharedPlaces(NamedTuple):
    """The store, the objects by which client and workers talk, and this machine's cache folder."""

    store: Store
    objects: Objects
    cache: Path


def of_client(run: Run, folder: Path, store: Store) -> SharedPlaces:
    """Return the places of a run for its client, which has the store already."""
    return SharedPlaces(store, _objects(run, folder, store), folder)


def of_worker(run: Run, environ: Mapping[str, str]) -> SharedPlaces:
    """Return the places of a run for a worker."""
    folder = run.cache or cache_folder(environ)
    store = _store(run.store, folder)
    return SharedPlaces(store, _objects(run, folder, store), folder)


@cache
def _store(url: str | None, folder: Path) -> Store:
    return opened(folder / "store", url) if url else FolderStore(folder / "store")


def _objects(run: Run, folder: Path, store: Store) -> Objects:
    """Return the objects of runs: those of the shared store or, on one machine, files of its cache folder."""
    if isinstance(store, SharedStore) and not run.cache:
        return store.objects
    return connect(str((folder / "board").absolute()))
