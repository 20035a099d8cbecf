"""The engine: runs the steps of a plan, each after those that it needs, as many at once as there are slots."""

import queue
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Literal, NamedTuple

from gpuforge import locks
from gpuforge.errors import GpuforgeError
from gpuforge.execute.ledger import Ledger, LedgerEntry
from gpuforge.execute.outcome import ActionReason, ActionResult, Observer, Outcome, Step
from gpuforge.execute.slots import machine_memory, slots_of
from gpuforge.execute.store import Store
from gpuforge.execute.times import now
from gpuforge.execute.verdict import Verdict, verdicts
from gpuforge.execute.work import Work, Workers, failed_by
from gpuforge.plan.action import priorities
from gpuforge.plan.keys import labelled

_Report = str | Future[ActionResult]  # a worker waits for something (text), or has ended
_Events = queue.SimpleQueue[tuple[str, _Report]]
_SHORT = 10.0  # seconds: running one before the others saves nothing if each takes no longer


def _report(events: _Events, name: str, report: _Report) -> None:
    events.put((name, report))


class _Record(NamedTuple):
    """What a run leaves beside its outputs: an entry in the ledger for each action, and its log."""

    ledger: Ledger
    project: str
    logs: Path
    keys: Mapping[str, str]

    def log(self, name: str) -> Path:
        """Return where an action's log goes: for the same work, the same file on every run."""
        return self.logs / f"{locks.file_name(name)}-{self.keys[name][:8]}.log"

    def is_short(self, name: str) -> bool:
        """Return whether an action took little time when it last ran."""
        last = self.ledger.last(self.project, name)
        return last is not None and last.result == "ok" and last.seconds < _SHORT

    def memory(self, name: str) -> int:
        """Return how much memory one of an action's processes took when it last ran, in bytes; 0 if it is not known."""
        return self.ledger.memory(self.project, name)

    def write(self, step: Step, result: ActionResult) -> None:
        """Write down how an action ended, if it was worked on."""
        if result.state not in {"failed", "done"} and result.reason.kind != "same-content":
            return
        seconds = 0.0 if result.state == "reused" else round(result.seconds, 3)
        ended: Literal["ok", "failed"] = "failed" if result.state == "failed" else "ok"
        facts, log = labelled(step.facts), str(self.log(step.action.id))
        entry = LedgerEntry(
            now(),
            self.project,
            step.action.id,
            step.key,
            facts,
            seconds,
            ended,
            log,
            result.memory or self.memory(step.action.id),
        )
        with suppress(OSError):  # only the next run's reasons are less precise: the outputs are in the store
            self.ledger.append(entry)


class Engine:
    """One run: it brings every step's outputs into the store, and runs only the steps that must run.

    Only the thread that calls `run` uses its fields, except `_events`, where workers report.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        store: Store,
        ledger: Ledger,
        workers: Workers,
        jobs: int,
        observer: Observer,
        logs: Path,
        project: str,
        targets: Collection[str] = (),
        judged: Mapping[str, Verdict] | None = None,
        seconds: float | None = None,
        memory: int | None = None,
    ) -> None:
        """Make ready for a run.

        `judged` are the verdicts on the steps, if the caller has them. `jobs` is the number of job slots, `memory` what
        they may take together, in bytes (default: this machine's); `logs` the folder for one log per action; `project`
        names the manifest in the ledger; `targets` the ids of steps whose outputs the caller reads, in addition to
        those of the last steps. The run is interrupted after `seconds`.
        """
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._steps = {step.action.id: step for step in steps}
        self._verdicts = judged or verdicts(
            steps, store=store, ledger=ledger, project=project, targets=targets
        )
        self._to_run = frozenset(name for name, verdict in self._verdicts.items() if verdict.run)
        self._priorities = priorities([step.action for step in steps])
        self._record = _Record(ledger, project, logs, {step.action.id: step.key for step in steps})
        self._workers = workers
        actions = {name: self._steps[name].action for name in self._to_run}
        memory = memory or machine_memory() * 9 // 10  # the rest of the machine has the last tenth
        self._slots = slots_of(workers, actions, max(1, jobs), memory, self._record)
        self._observer = observer
        self._started: dict[str, tuple[Work, float]] = {}  # with the time of a monotonic clock
        self._results: dict[str, ActionResult] = {}
        # of failed and blocked steps: the id of the action that is the cause
        self._blame: dict[str, str] = {}
        self._useless: dict[str, str] = {}  # steps that only blocked ones need: the id of the cause
        self._ends = self._to_run & {*targets}
        self._futures: dict[str, Future[ActionResult]] = {}
        self._events: _Events = queue.SimpleQueue()

    def run(self) -> Outcome:
        """Run the plan to its end or to its interruption, and return how each step ended.

        A failed step fails only the steps that need it; steps that only these need are stopped, or not started any
        more. KeyboardInterrupt in the calling thread stops the running commands (a second one, at once and by force)
        and ends in an Outcome with `interrupted`; so does the end of the time.
        """
        self._observer.on_plan(tuple(self._steps.values()), self._to_run)
        for name, verdict in self._verdicts.items():
            if not verdict.run:
                self._settle(verdict.reused(name))
        if not self._to_run:
            return Outcome({name: self._results[name] for name in self._steps})
        self._workers.prepare([self._steps[name].action for name in self._steps if name in self._to_run])
        interrupted = False
        with ThreadPoolExecutor(self._slots.most, thread_name_prefix="action") as pool:
            try:
                self._drive(pool)
            except KeyboardInterrupt:
                interrupted = True
                self._halt()
            except BaseException:
                self._workers.kill()
                raise
        for name in self._steps:
            if name not in self._results:
                self._settle(ActionResult(name, "not-run", ActionReason("interrupted")))
        return Outcome({name: self._results[name] for name in self._steps}, interrupted)

    def _drive(self, pool: ThreadPoolExecutor) -> None:
        order = {name: (-self._priorities[name], at) for at, name in enumerate(self._steps)}
        sorter = TopologicalSorter({name: self._to_run & {*self._needs(name)} for name in self._to_run})
        sorter.prepare()
        ready: list[str] = []
        while sorter.is_active():
            ready = sorted([*ready, *sorter.get_ready()], key=order.__getitem__)
            dropped = [name for name in ready if self._drop(name)]
            started = [name for name in ready if name not in dropped and self._start(name, pool)]
            ready = [name for name in ready if name not in dropped and name not in started]
            sorter.done(*dropped)
            if not dropped:
                sorter.done(*self._next_ended())

    def _needs(self, name: str) -> tuple[str, ...]:
        return self._steps[name].action.needs

    def _drop(self, name: str) -> bool:
        """Record a step that need not run, or cannot because an output that it needs is not there."""
        if name in self._useless:
            self._blame[name] = cause = self._useless[name]
            self._settle(ActionResult(name, "not-run", self._caused("useless", cause)))
            return True
        for need in self._needs(name):
            if blamed := self._blame.get(need):
                self._blame[name] = blamed
                self._settle(ActionResult(name, "not-run", self._caused("blocked", blamed)))
                return True
        return False

    def _note_useless(self, failed: str) -> None:
        """Note the steps whose outputs nobody needs after a failure: all that need them are blocked by it.

        Those of them that run are stopped.
        """
        users: dict[str, list[str]] = {name: [] for name in self._to_run}
        for name in self._to_run:
            for need in self._needs(name):
                users.setdefault(need, []).append(name)
        lost, pending = {*self._blame, *self._useless}, [failed]
        while pending:
            new = [name for name in users[pending.pop()] if name not in lost]
            lost |= {*new}
            pending += new
        for name in reversed(self._steps):  # plans list a step after those that it needs
            is_end = name in self._ends or not users.get(name)
            if name in self._to_run and name not in lost and not is_end and lost.issuperset(users[name]):
                lost.add(name)
                self._useless[name] = self._blame[failed]
                if name in self._started and name not in self._results:
                    self._workers.stop(name)

    def _start(self, name: str, pool: ThreadPoolExecutor) -> bool:
        """Start a step if there is room for it."""
        slots = self._slots.take(name)
        if not slots:
            return False
        step, log = self._steps[name], self._record.log(name)
        self._observer.on_start(step.action, log)
        made = {need: self._record.keys[need] for need in self._needs(name)}
        work = Work(
            step.action,
            step.key,
            step.facts,
            made,
            self._verdicts[name].reason,
            slots,
            self._priorities[name],
        )
        report = partial(_report, self._events, name)  # without the engine: it would live on with its store
        self._started[name] = work, time.monotonic()
        self._futures[name] = future = pool.submit(self._workers.do, work, log, report)
        future.add_done_callback(report)
        return True

    def _next_ended(self) -> tuple[str, ...]:
        """Wait for the next report of a worker; return the steps that have ended."""
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if left is not None and left <= 0:
            raise KeyboardInterrupt
        waits = [each for each in (left, self._slots.look) if each is not None]
        try:
            name, report = self._events.get(timeout=min(waits, default=None))
        except queue.Empty:  # a worker may have joined, or it is time to end
            return ()
        if isinstance(report, str):
            self._observer.on_wait(self._steps[name].action, report)
            return ()
        result = self._ended(name, report)
        if result.state not in {"done", "reused"}:
            self._blame[name] = self._useless.get(name, name)
            self._note_useless(name)
        self._settle(result)
        return (name,)

    def _ended(self, name: str, future: Future[ActionResult]) -> ActionResult:
        """Return how a step that was started has ended, and write it down."""
        work, begin = self._started[name]
        try:
            result = future.result()
        except (OSError, GpuforgeError) as error:
            result = failed_by(error, work, self._record.log(name), time.monotonic() - begin)
        if result.state == "cancelled" and name in self._useless:
            result = replace(result, reason=self._caused("useless", self._useless[name]))
        self._record.write(self._steps[name], result)
        return result

    def _caused(self, kind: Literal["useless", "blocked"], cause: str) -> ActionReason:
        return ActionReason(kind, actions=(cause,), state=self._results[cause].state)

    def _settle(self, result: ActionResult) -> None:
        self._results[result.id] = result
        self._slots.ended(result.id)
        self._observer.on_finish(self._steps[result.id].action, result)

    def _halt(self) -> None:
        """Stop the running commands, and record each step: some may just have finished."""
        try:
            self._observer.on_interrupt()
            self._workers.cancel()
            wait(self._futures.values())
        except KeyboardInterrupt:
            self._workers.kill()
            wait(self._futures.values())
        for name, future in self._futures.items():
            if name not in self._results:
                self._settle(self._ended(name, future))
