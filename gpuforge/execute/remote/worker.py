"""The worker's side: takes a job, does its work as on the client's machine, and writes down how it ended."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError, MissingError
from gpuforge.execute.outcome import ActionResult
from gpuforge.execute.remote import failed_workdir, programs_here
from gpuforge.execute.remote.board import Board
from gpuforge.execute.remote.files import received
from gpuforge.execute.remote.job import Job
from gpuforge.execute.remote.places import SharedPlaces, of_worker
from gpuforge.execute.remote.programs_here import UnfitError
from gpuforge.execute.remote.watchdog import Watchdog
from gpuforge.execute.runners.choice import RunnerSettings, on_worker
from gpuforge.execute.runners.runner import Runner
from gpuforge.execute.store import Store
from gpuforge.execute.work import Work, Workplace, failed_by
from gpuforge.plan.action import FileInput
from gpuforge.toolchains import sccache


def work_on(job: Job, worker: str, cpus: int) -> str:
    """Do a job on this machine, for the worker of that name, with so many processors; return a word for its end.

    The result is on the job's board. A job that another worker had before is not done: its client handles that.
    """
    at = of_worker(job.run, os.environ)
    board = Board(at.objects, job.run.id, job.name)
    no_run = f"it finds no such run in the store {at.objects.url}"
    if board.client() is None:  # the run is over, or this is another store
        return no_run
    if not board.take(worker):
        return "taken before"
    if board.client() is None:  # it ended just now, and `taken` is already removed
        board.clear()
        return no_run
    with tempfile.TemporaryDirectory(prefix="gpuforge-job-") as folder:
        log = Path(folder, "log")
        try:
            work = _here(job, at.store, cpus)
            failed = job.run.failed and (job.run.failed if job.run.cache else Path(folder, "failed"))
            variables = sccache.configured(os.environ, at.cache, job.run.compiled, job.run.store)
            place = Workplace(at.store, _runner(job, at, cpus, failed, variables))
        except UnfitError as error:
            board.end("unfit", _unfit(job.work, worker, error))
            return "unfit"
        except (OSError, GpuforgeError) as error:
            board.end("ended", failed_by(error, job.work, log, 0.0))
            return "failed"
        with Watchdog(board, log, place.cancel) as watchdog:
            begin = time.monotonic()
            try:
                result = place.do(work, log, lambda _: None)
            except (OSError, GpuforgeError) as error:
                result = failed_by(error, work, log, time.monotonic() - begin)
            if result.kept and not job.run.cache:
                failed_workdir.send(board, result.kept)
    if watchdog.is_alone:
        board.clear()
        return "its client is gone"
    board.end("ended", result)
    return result.state


def _here(job: Job, store: Store, cpus: int) -> Work:
    """Return the work with the paths of this machine: files from the store, programs that are installed here."""
    action = job.work.action
    sources = programs_here.find(action)
    for name, key in job.files.items():
        value = action.inputs[name]
        assert isinstance(value, FileInput)  # noqa: S101  the client sends no others
        sources[name] = received(value, key, store, action.id)
    return replace(job.work, sources=sources, jobs=job.work.jobs if job.run.cache else cpus)


def _runner(
    job: Job, at: SharedPlaces, cpus: int, failed: Path | None, variables: Mapping[str, str]
) -> Runner:
    run = job.run
    limits = run.limits if run.cache else replace(run.limits, cpus=cpus)
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
