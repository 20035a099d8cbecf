"""Performs one step of a plan: has its work done, here or elsewhere, and writes the outcome into the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gpuforge.errors import GpuforgeError
from gpuforge.execute import locks
from gpuforge.execute.ledger import Ledger, LedgerEntry
from gpuforge.execute.outcome import ActionReason, ActionResult, Step
from gpuforge.execute.runners.runner import Runner
from gpuforge.execute.store import WorkStore
from gpuforge.execute.times import now
from gpuforge.execute.work import Work, Workplace, failed_by
from gpuforge.plan.action import Action
from gpuforge.plan.keys import labelled


class Workers(Protocol):
    """The port to the machines that do the work of actions: this one, or those of a cluster."""

    @property
    def is_remote(self) -> bool:
        """Whether they are other machines, which share neither processors nor folders with this one."""

    def prepare(self, actions: Sequence[Action]) -> None:
        """Get ready for the actions of a run, before the first starts."""

    def take_room(self, action: Action) -> bool:
        """Reserve a worker for an action until `do` has ended; False if no remote one may be free."""

    def do(self, work: Work, log: Path, waits: Callable[[str], None]) -> ActionResult:
        """Do some work to its end; see `Workplace.do`.

        Raises GpuforgeError and OSError when no machine can do it.
        """

    def cancel(self) -> None:
        """Ask running commands to stop, kill those that do not, start nothing more; return when none runs."""

    def kill(self) -> None:
        """Stop everything at once, by force, and start nothing more."""


class LocalMachine:
    """This machine: each action runs with one `runner`, and its outputs go into one `store`."""

    is_remote = False

    def __init__(self, store: WorkStore, runner: Runner) -> None:
        self._place = Workplace(store, runner)

    def prepare(self, actions: Sequence[Action]) -> None:
        """Get ready for the actions of a run, before the first starts."""
        self._place.runner.prepare(actions)

    def take_room(self, action: Action) -> bool:
        """Return True: the caller counts its job slots."""
        return True

    def do(self, work: Work, log: Path, waits: Callable[[str], None]) -> ActionResult:
        """Do some work to its end; see `Workplace.do`."""
        return self._place.do(work, log, waits)

    def cancel(self) -> None:
        """Ask running commands to stop, kill those that do not, start nothing more; return when none runs."""
        self._place.halt()

    def kill(self) -> None:
        """Stop everything at once, by force, and start nothing more."""
        self._place.stop.set()
        self._place.runner.kill()


@dataclass(frozen=True, slots=True)
class RunContext:
    """The values that all steps of a run share.

    `logs` is a folder, `project` names the manifest in the ledger, and `keys` maps every action of the plan to its key.
    """

    ledger: Ledger
    workers: Workers
    logs: Path
    project: str
    keys: Mapping[str, str]

    def log(self, step: Step) -> Path:
        """Return where a step's log goes: for the same work, the same file on every run."""
        return self.logs / f"{locks.file_name(step.action.id)}-{step.key[:8]}.log"


def perform(
    step: Step,
    context: RunContext,
    reason: ActionReason,
    jobs: int,
    waits: Callable[[str], None],
) -> ActionResult:
    """Have a step's work done and return how it ended; a failure is a result, too.

    `reason` is why it runs, `jobs` how many processes it may run side by side; `waits` is called when it waits for
    something outside, such as another gpuforge that does the same work.
    """
    log = context.log(step)
    made = {need: context.keys[need] for need in step.action.needs}
    work = Work(step.action, step.key, step.facts, made, reason, jobs)
    begin = time.monotonic()
    try:
        result = context.workers.do(work, log, waits)
    except (OSError, GpuforgeError) as error:
        result = failed_by(error, work, log, time.monotonic() - begin)
    if result.state == "failed":
        _write_down(step, context, result.seconds, "failed")
    elif result.state == "done":
        _write_down(step, context, result.seconds, "ok")
    elif result.reason.kind == "same-content":
        _write_down(step, context, 0.0, "ok")
    return result


def _write_down(step: Step, context: RunContext, seconds: float, result: Literal["ok", "failed"]) -> None:
    name, log = step.action.id, str(context.log(step))
    facts = labelled(step.facts)
    entry = LedgerEntry(now(), context.project, name, step.key, facts, round(seconds, 3), result, log)
    with suppress(OSError):  # only the next run's reasons are less precise: the outputs are in the store
        context.ledger.append(entry)
