"""The engine: runs the steps of a plan, each after those that it needs, as many at once as there are slots."""

from __future__ import annotations

import queue
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path

from gpuforge.execute.ledger import Ledger
from gpuforge.execute.observer import Observer
from gpuforge.execute.outcome import ActionReason, ActionResult, Outcome, Step
from gpuforge.execute.perform import RunContext, Workers, perform
from gpuforge.execute.slots import slots_of
from gpuforge.execute.store import Store
from gpuforge.execute.verdict import Verdict, verdicts

_Report = str | Future[ActionResult]  # a worker waits for something (text), or has ended
_Events = queue.SimpleQueue[tuple[str, _Report]]
_SHORT = 10.0  # seconds: running one before the others saves nothing if each takes no longer


def run(
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
) -> Outcome:
    """Bring every step's outputs into the store, running only the steps that must run, and return how each one ended.

    `jobs` is the number of job slots; `logs` the folder for one log per action; `project` names the manifest in the
    ledger; `targets` the ids of steps whose outputs the caller reads, in addition to those of the last steps. A failed
    step fails only the steps that need it; steps that only these need are not started any more. KeyboardInterrupt in
    the calling thread stops the running commands (a second one, at once and by force) and ends in an Outcome with
    `interrupted`.
    """
    found = verdicts(steps, store=store, ledger=ledger, project=project, targets=targets)
    keys = {step.action.id: step.key for step in steps}
    context = RunContext(ledger, workers, logs, project, keys)
    return _Engine(steps, found, context, max(1, jobs), observer, targets).run()


def _report(events: _Events, name: str, report: _Report) -> None:
    events.put((name, report))


def _is_short(context: RunContext, name: str) -> bool:
    """Return whether an action took little time when it last ran."""
    last = context.ledger.last(context.project, name)
    return last is not None and last.result == "ok" and last.seconds < _SHORT


class _Engine:
    """One run. Only the calling thread uses its fields, except `_events`, where workers report."""

    def __init__(
        self,
        steps: Sequence[Step],
        found: Mapping[str, Verdict],
        context: RunContext,
        jobs: int,
        observer: Observer,
        targets: Collection[str],
    ) -> None:
        self._steps = {step.action.id: step for step in steps}
        self._verdicts = found
        self._to_run = frozenset(name for name, verdict in found.items() if verdict.run)
        self._context = context
        actions = {name: self._steps[name].action for name in self._to_run}
        self._slots = slots_of(context.workers, actions, jobs, partial(_is_short, context))
        self._observer = observer
        self._results: dict[str, ActionResult] = {}
        self._blame: dict[
            str, str
        ] = {}  # of failed and blocked steps: the id of the action that is the cause
        self._useless: dict[str, str] = {}  # steps that only blocked ones need: the id of the cause
        self._ends = self._to_run & {*targets}
        self._futures: dict[str, Future[ActionResult]] = {}
        self._events: _Events = queue.SimpleQueue()

    def run(self) -> Outcome:
        """Run the plan to its end or to its interruption."""
        self._observer.on_plan(tuple(self._steps.values()), self._to_run)
        for name, verdict in self._verdicts.items():
            if not verdict.run:
                saved = verdict.stored.entry.seconds if verdict.stored else 0.0
                self._settle(ActionResult(name, "reused", verdict.reason, saved))
        self._context.workers.prepare([s.action for s in self._steps.values() if s.action.id in self._to_run])
        interrupted = bool(self._to_run) and self._run_all()
        return Outcome({name: self._results[name] for name in self._steps}, interrupted)

    def _run_all(self) -> bool:
        """Run the steps that must run; return whether the user interrupted it."""
        with ThreadPoolExecutor(self._slots.most, thread_name_prefix="action") as pool:
            try:
                self._drive(pool)
            except KeyboardInterrupt:
                self._halt()
            except BaseException:
                self._context.workers.kill()
                raise
            else:
                return False
        for name in self._steps:
            if name not in self._results:
                self._settle(ActionResult(name, "not-run", ActionReason("interrupted")))
        return True

    def _drive(self, pool: ThreadPoolExecutor) -> None:
        place = self._order()
        sorter = TopologicalSorter({name: self._to_run & {*self._needs(name)} for name in self._to_run})
        sorter.prepare()
        ready: list[str] = []
        while sorter.is_active():
            ready = sorted([*ready, *sorter.get_ready()], key=place.__getitem__)
            dropped = [name for name in ready if self._drop(name)]
            started = [name for name in ready if name not in dropped and self._start(name, pool)]
            ready = [name for name in ready if name not in dropped and name not in started]
            sorter.done(*dropped)
            if not dropped:
                sorter.done(*self._next_ended())

    def _order(self) -> dict[str, tuple[int, int]]:
        """Return each step's position among the ready ones: by priority, then in the plan's order."""
        return {name: (-step.action.priority, at) for at, (name, step) in enumerate(self._steps.items())}

    def _needs(self, name: str) -> tuple[str, ...]:
        return self._steps[name].action.needs

    def _drop(self, name: str) -> bool:
        """Record a step that need not run, or cannot because an output that it needs is not there."""
        if name in self._useless:
            self._blame[name] = failed = self._useless[name]
            reason = ActionReason("useless", actions=(failed,), state=self._results[failed].state)
            self._settle(ActionResult(name, "not-run", reason))
            return True
        for need in self._needs(name):
            cause = self._blame.get(need)
            if cause:
                self._blame[name] = cause
                reason = ActionReason("blocked", actions=(cause,), state=self._results[cause].state)
                self._settle(ActionResult(name, "not-run", reason))
                return True
        return False

    def _note_useless(self, failed: str) -> None:
        """Note the steps whose outputs nobody needs after a failure: all that need them are blocked by it."""
        users: dict[str, list[str]] = {name: [] for name in self._to_run}
        for name in self._to_run:
            for need in self._needs(name):
                users.setdefault(need, []).append(name)
        lost, pending = {*self._blame, *self._useless}, [failed]
        while pending:
            new = [name for name in users[pending.pop()] if name not in lost]
            lost |= {*new}
            pending += new
        for name in reversed(self._steps):  # plans list a step after those that it needs, or nearly so
            is_end = name in self._ends or not users.get(name)
            if name in self._to_run and name not in lost and not is_end and lost.issuperset(users[name]):
                lost.add(name)
                self._useless[name] = failed

    def _start(self, name: str, pool: ThreadPoolExecutor) -> bool:
        """Start a step if there is room for it."""
        slots = self._slots.take(name)
        if not slots:
            return False
        step, reason = self._steps[name], self._verdicts[name].reason
        self._observer.on_start(step.action, self._context.log(step))
        report = partial(_report, self._events, name)
        future = pool.submit(perform, step, self._context, reason, slots, report)
        self._futures[name] = future
        future.add_done_callback(report)
        return True

    def _next_ended(self) -> tuple[str, ...]:
        """Wait for the next report of a worker; return the steps that have ended."""
        try:
            name, report = self._events.get(timeout=self._slots.look)
        except queue.Empty:  # a worker may have joined
            return ()
        if isinstance(report, str):
            self._observer.on_wait(self._steps[name].action, report)
            return ()
        result = report.result()
        if result.state not in {"done", "reused"}:
            self._blame[name] = name
            self._note_useless(name)
        self._settle(result)
        return (name,)

    def _settle(self, result: ActionResult) -> None:
        self._results[result.id] = result
        self._slots.ended(result.id)
        self._observer.on_finish(self._steps[result.id].action, result)

    def _halt(self) -> None:
        """Stop the running commands, and record each step: some may just have finished."""
        try:
            self._observer.on_interrupt()
            self._context.workers.cancel()
            wait(self._futures.values())
        except KeyboardInterrupt:
            self._context.workers.kill()
            wait(self._futures.values())
        for name, future in self._futures.items():
            if name not in self._results:
                self._settle(future.result())
