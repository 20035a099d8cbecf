"""The client's side: has the work of gpuforge's engine done by the workers of a cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

from gpuforge.cluster import abilities
from gpuforge.cluster.abilities import Abilities, Ability, refused, unable
from gpuforge.cluster.board import Board, Job, JobEnd, Run, new_name
from gpuforge.cluster.inputs import Sender
from gpuforge.cluster.objects import Objects, ObjectsError
from gpuforge.cluster.worker import SharedPlaces
from gpuforge.errors import ActionError, MissingError
from gpuforge.execute.outcome import ActionReason, ActionResult
from gpuforge.execute.work import Work
from gpuforge.plan.action import Action, FileInput
from gpuforge.plan.site import ContainerImage

ATTEMPTS = 4  # lost workers after which an action has failed
_ABANDONED_S = 7 * 86400.0  # seconds after which the next run removes the objects of one that was killed
_WORKERS_S = 2.0  # seconds until the list of workers is read again


class RemoteWorkers:
    """The workers of a cluster, for one run; `is_remote` says whether they are on other machines."""

    def __init__(
        self,
        run: Run,
        at: SharedPlaces,
        cluster: Cluster,
        images: Mapping[str, ContainerImage],
        *,
        is_remote: bool,
    ) -> None:
        self.is_remote = is_remote
        self._run = run
        self._at = at
        self._cluster = cluster
        self._images = images
        self._sender = Sender(at.store)
        self._stop = threading.Event()
        self._stops: dict[str, threading.Event] = {}  # by action that is being done
        self._guard = threading.Lock()
        # by action that a worker has: what it needs; by what is needed: how many of the workers seen can do it
        self._rooms: dict[str, frozenset[tuple[Ability, float]]] = {}
        self._fit: dict[frozenset[tuple[Ability, float]], int] = {}
        self._seen: Mapping[str, Abilities] = {}
        self._seen_at = -_WORKERS_S

    @contextmanager
    def begun(self) -> Iterator[RemoteWorkers]:
        """Let the workers see the run during a `with`, and remove all of its objects at its end."""
        name = f"runs/{self._run.id}/begun"
        self._at.objects.put(name, b"")
        sweep(self._at.objects, name)
        try:
            yield self
        finally:
            with suppress(ObjectsError):
                self._at.objects.remove(name)  # first: a worker that takes a job now sees the end
                for each in self._at.objects.names(f"runs/{self._run.id}"):
                    self._at.objects.remove(each)

    def refuse_others(self) -> None:
        """Raise MissingError if there are workers, and all of them have another gpuforge or Python."""
        reasons = refused({abilities.identity(): 1.0}, self._workers())
        if reasons:
            raise MissingError.of(
                f"no worker runs the gpuforge of this client, {abilities.identity().label}: {reasons}",
                hint="install the same gpuforge for the same Python there; docs/clusters.md shows how",
            )

    def prepare(self, actions: Sequence[Action]) -> None:
        """Do nothing: the workers are ready, or come later."""

    def take_room(self, action: Action) -> bool:
        """Reserve a worker for an action until `do` has ended; False if none may be free: each does one at a time.

        dask does not queue tasks that need resources: one task too many would wait behind one worker's action, perhaps
        a long one.
        """
        needs = self._needs(action)
        room, workers = frozenset(needs.items()), self._workers()
        with self._guard:
            if room not in self._fit:
                self._fit[room] = sum(not [*abilities.lacking(needs, has)] for has in workers.values())
            if sum(each == room for each in self._rooms.values()) >= max(1, self._fit[room]):
                return False
            self._rooms[action.id] = room
            return True

    def do(self, work: Work, log: Path, waits: Callable[[str], None]) -> ActionResult:
        """Have some work done by a worker; see `Workers.do`."""
        name = work.action.id
        with self._guard:
            self._stops[name] = stop = threading.Event()
            if self._stop.is_set():
                stop.set()
        try:
            files = {
                each: self._sender.send(value, name)
                for each, value in work.action.inputs.items()
                if isinstance(value, FileInput) and value.program is None
            }
            return self._do(work, files, log, waits, stop)
        finally:
            with self._guard:
                self._rooms.pop(name, None)
                del self._stops[name]

    def cancel(self) -> None:
        """Give up the running jobs; their workers see it, and stop them by force after a grace time."""
        with self._guard:
            self._stop.set()
            for stop in self._stops.values():
                stop.set()

    kill = cancel  # which waits for no worker

    def stop(self, action: str) -> None:
        """Give up an action; the worker that does it stops it by force after a grace time."""
        with self._guard:
            if action in self._stops:
                self._stops[action].set()

    def _do(
        self,
        work: Work,
        files: dict[str, str],
        log: Path,
        waits: Callable[[str], None],
        stop: threading.Event,
    ) -> ActionResult:
        name, needs = work.action.id, self._needs(work.action)
        lost: list[AttemptEnd] = []
        unfit: dict[str, ActionResult] = {}
        log.parent.mkdir(parents=True, exist_ok=True)
        while not stop.is_set():
            log.write_bytes(b"")
            job = Job(self._run, new_name(name), work, files, self._images.get(work.action.image or ""))
            worker, ended = attempt = self._attempt(job, log, unfit, waits, stop)
            if ended.unfit and ended.result:
                unfit[worker] = ended.result
                others = [has for each, has in self._workers().items() if each not in unfit]
                if all([*abilities.lacking(needs, has)] for has in others):
                    raise _nobody(work.action, unfit)
            elif ended.result:
                return replace(ended.result, log=log if log.stat().st_size else None)
            elif not stop.is_set():
                lost.append(attempt)
                if len(lost) == ATTEMPTS:
                    raise _lost(work.action, lost)
                waits(f"another worker: {worker or 'the one that had it'} is gone")
        return ActionResult(name, "cancelled", ActionReason("interrupted"), log=log)

    def _attempt(
        self,
        job: Job,
        log: Path,
        unfit: Mapping[str, ActionResult],
        waits: Callable[[str], None],
        stop: threading.Event,
    ) -> AttemptEnd:
        """Submit a job and follow it to its end; afterwards only the object `taken` is left."""
        needs, board = self._needs(job.work.action), Board(self._at.objects, self._run.id, job.name)
        end, reported = time.monotonic() + self._run.limits.seconds, None

        def idle(is_idle: bool) -> None:
            """Report why the job waits while no worker has it, and give it up in the end."""
            nonlocal reported
            why = ""
            if is_idle:
                self.refuse_others()
                why = unable(needs, self._workers())
            if why != reported:
                reported = why
                waits(why)
            if is_idle and time.monotonic() > end:
                raise MissingError.of(
                    f"{job.work.action.id} waited {self._run.limits.seconds / 3600:g} h and no worker started it"
                    + (f": {why}" if why else ""),
                    hint="start workers that can do it, or allow more time by --timeout",
                )

        ticket = self._cluster.submit(job, needs, [*unfit])
        try:
            ended = follow(board, ticket, log, stop, idle, self._workers)
        finally:
            ticket.drop()  # the worker of a job that is not over sees this, and removes its objects
        if ended.end.result:
            board.clear(but="taken")
        return ended

    def _needs(self, action: Action) -> dict[Ability, float]:
        return abilities.needed(action, self._run.limits.memory)

    def _workers(self) -> Mapping[str, Abilities]:
        with self._guard:
            if time.monotonic() - self._seen_at >= _WORKERS_S:
                self._seen, self._seen_at = self._cluster.workers(), time.monotonic()
                self._fit = {}
            return self._seen


def sweep(objects: Objects, own: str) -> None:
    """Remove the objects of runs that were killed; the present time is that of `own`, which was just written."""
    found = objects.find("runs")
    now = max((each.modified for each in found if each.name == own), default=0.0)
    signs: dict[str, float] = {}
    for each in found:
        run = each.name.split("/")[1]
        signs[run] = max(signs.get(run, 0.0), each.modified)
    for each in found:
        if now - signs[each.name.split("/")[1]] > _ABANDONED_S:
            objects.remove(each.name)


def _nobody(action: Action, unfit: Mapping[str, ActionResult]) -> MissingError:
    problems = [result.error for result in unfit.values() if result.error]
    message = "; ".join(each.message for each in problems)
    return MissingError.of(f"no worker can run {action.id}: {message}", hint=problems[0].hint)


def _lost(action: Action, lost: list[AttemptEnd]) -> ActionError:
    names = ", ".join(dict.fromkeys(each.worker or "no worker had it" for each in lost))
    last = lost[-1].end.word
    return ActionError.of(
        f"{action.id} was given up after {len(lost)} workers were lost with it ({names}); the last: {last}",
        hint="the workers' own logs show why they ended; most often memory ran out",
    )


LOOK_S = 1.0  # seconds between two looks at the board, at first
_SELDOM_S = 10.0  # seconds between two looks at a long action
_LONG = 30  # the time between two looks is the age of the job, divided by this


class AttemptEnd(NamedTuple):
    """The worker of an attempt, if one had the job, and its end: without a result it was given up or lost."""

    worker: str
    end: JobEnd


def follow(
    board: Board,
    ticket: Ticket,
    log: Path,
    stop: threading.Event,
    idle: Callable[[bool], None],
    workers: Callable[[], Collection[str]],
) -> AttemptEnd:
    """Return how a job ended, that its worker is none of `workers` any more, or that `stop` was set.

    `idle` gets at each look whether the job waits for a worker. The engine would run the task of a lost worker again by
    itself, when another worker is free; that one would find it taken.
    """
    worker, pieces = "", 0
    taken = begin = time.monotonic()
    while True:
        is_over = _wait(ticket, time.monotonic() - begin, stop)
        try:
            if not worker and (worker := board.taken_by()):
                taken = time.monotonic()
            for text in board.logged(pieces):
                with log.open("ab") as stream:
                    stream.write(text)
                pieces += 1
            idle(not worker and not is_over)
        except ObjectsError:  # the store is out of reach: if that lasts, the worker's result says so
            if is_over:
                raise
        if is_over or stop.is_set():
            return AttemptEnd(worker, ticket.end() if is_over else JobEnd("stopped"))
        if worker and time.monotonic() - taken > _WORKERS_S and worker not in workers():
            return AttemptEnd(worker, JobEnd("it left the scheduler"))


def _wait(ticket: Ticket, age: float, stop: threading.Event) -> bool:
    """Wait until the next look at a job that was submitted so many seconds ago; return whether it is over.

    A look takes 7 ms of CPU if the store is a bucket; the engine reports the end of the job.
    """
    due = time.monotonic() + min(max(age / _LONG, LOOK_S), _SELDOM_S)
    while not ticket.wait(LOOK_S):
        if stop.is_set() or time.monotonic() >= due:
            return False
    return True


class Ticket(Protocol):
    """A job that was submitted."""

    def wait(self, seconds: float) -> bool:
        """Wait at most so long, and return whether the engine has finished with the job, successfully or not."""

    def end(self) -> JobEnd:
        """Return what `work_on` returned for a finished job, or the engine's word for a lost one."""

    def drop(self) -> None:
        """Let the engine forget the job; its worker then stops it, as it does if the client is gone."""


class Cluster(Protocol):
    """An engine with its workers."""

    def submit(self, job: Job, needs: Abilities, avoid: Collection[str]) -> Ticket:
        """Give a job to the first free worker that has what it needs and is not among those to avoid."""

    def workers(self) -> Mapping[str, Abilities]:
        """Return the abilities of each present worker, by its name; raises MissingError without an engine."""
