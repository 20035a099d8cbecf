"""Performs one step: finds its inputs, runs it, keeps what it made."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from gpuforge import digest
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import ActionError, GpuforgeError
from gpuforge.execute import failure, locks
from gpuforge.execute.integrity import survey
from gpuforge.execute.ledger import Ledger, LedgerEntry
from gpuforge.execute.outcome import ActionResult, Reason, Step
from gpuforge.execute.runners.runner import Exit, Runner, Source, Task
from gpuforge.execute.store import Store, Stored
from gpuforge.execute.store_entry import StoreEntry
from gpuforge.execute.times import now
from gpuforge.execute.verdict import reuse
from gpuforge.plan import step_result
from gpuforge.plan.action import Action, ActionInput, FileInput, ImageInput
from gpuforge.plan.keys import FORMAT
from gpuforge.plan.step_result import StepResult

_SAME = Reason("reused", "what it reads was made anew, with the same content")
_POLL = 0.1  # seconds between looks at a lock that another process holds


@dataclass(frozen=True, slots=True)
class RunContext:
    """Where steps are performed.

    `logs` is a folder, `project` names the manifest in the ledger, `keys` maps every action of the plan to
    its key, and `stop`, once set, ends all waiting for others.
    """

    store: Store
    ledger: Ledger
    runner: Runner
    logs: Path
    project: str
    keys: Mapping[str, str]
    stop: threading.Event = field(default_factory=threading.Event)

    def log(self, step: Step) -> Path:
        """Return where a step's log goes: for the same work, the same file on every run."""
        return self.logs / f"{locks.file_name(step.action.id)}-{step.key[:8]}.log"


def perform(
    step: Step,
    context: RunContext,
    reason: Reason,
    jobs: int,
    waits: Callable[[str], None],
) -> ActionResult:
    """Run a step and return how it ended; what the machine or the command does wrong is a result too.

    `reason` is why it runs, `jobs` how many processes it may run side by side; `waits` is called when another
    gpuforge already does this work.
    """
    name = step.action.id
    begin = time.monotonic()
    try:
        turn = _take_turn(step.key, context, partial(waits, "another gpuforge is doing the same work"))
        if turn is None:
            return ActionResult(name, "cancelled", Reason("not run", "interrupted before it started"))
        with turn:
            stored = context.store.get(step.key)
            if stored is not None:  # another gpuforge made it between the plan and now
                return ActionResult(name, "reused", reuse(stored).reason, stored.entry.seconds)
            if step.action.by_content:
                return _run_by_content(step, context, reason, jobs, waits)
            return _run(step, context, reason, jobs, step.key)
    except (OSError, GpuforgeError) as error:
        status = error.exit_code if isinstance(error, GpuforgeError) else None
        return _failed(step, context, reason, time.monotonic() - begin, failure.of_error(name, error), status)


def _take_turn(
    key: str, context: RunContext, waits: Callable[[], None]
) -> AbstractContextManager[Any] | None:
    reported = False
    while not context.stop.is_set():
        turn = context.store.claim(key)
        if turn is not None:
            return turn
        if not reported:
            waits()
            reported = True
        context.stop.wait(_POLL)
    return None


def _run_by_content(
    step: Step, context: RunContext, reason: Reason, jobs: int, waits: Callable[[str], None]
) -> ActionResult:
    """Run a step unless the same was made of the same content, also by another step that does so just now."""
    key = _content_key(step, context)
    turn = _take_turn(key, context, partial(waits, "the same is made of the same content just now"))
    if turn is None:
        return ActionResult(step.action.id, "cancelled", Reason("not run", "interrupted before it started"))
    with turn:
        stored = context.store.get(key)
        if stored is None:
            return _run(step, context, reason, jobs, key)
        context.store.alias(step.key, key)
    _write_down(step, context, 0.0, "ok")
    return ActionResult(step.action.id, "reused", _SAME, stored.entry.seconds)


def _run(step: Step, context: RunContext, reason: Reason, jobs: int, key: str) -> ActionResult:
    """Run a step and keep what it made under `key`, of which the step's own key is another name."""
    action, log = step.action, context.log(step)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")  # not the output of an earlier run
    inputs = _sources(step, context)
    with context.store.scratch() as out:
        end = context.runner.run(Task(action, inputs, out, log, jobs))
        result = StepResult.read(out / step_result.FILE)
        with suppress(IsADirectoryError):  # as something else that is no output it is removed by the store
            (out / step_result.FILE).unlink(missing_ok=True)
        if end.cancelled:
            return ActionResult(action.id, "cancelled", Reason("not run", "interrupted"), end.seconds, log)
        error = _judge(step, end, out, log, result.error) or _changed(action)
        if error:
            failed = _failed(step, context, reason, end.seconds, error, end.status)
            return replace(failed, kept=end.kept)
        try:
            files = survey(out, action.outputs, links_out=action.links_out, stop=context.stop.is_set)
        except InterruptedError:
            return ActionResult(action.id, "cancelled", Reason("not run", "interrupted"), end.seconds, log)
        context.store.commit(key, out, StoreEntry(action.id, end.seconds, now(), action.outputs, files))
        if key != step.key:
            context.store.alias(step.key, key)
    _write_down(step, context, end.seconds, "ok")
    return ActionResult(action.id, "done", reason, end.seconds, log, counts=result.counts)


def _content_key(step: Step, context: RunContext) -> str:
    """Return the key of an action by what it reads holds, not by how that was made.

    So a change that changes nothing further down, such as a comment in a source, ends where its effect ends.
    """
    facts = dict(step.facts)
    for name, value in step.action.inputs.items():
        if isinstance(value, ActionInput):
            facts[f"input {name}"] = _made(step, value, context).content(value.output)
    action = step.action
    return digest.of_data([FORMAT, "content", action.kind, facts, list(action.outputs), action.network])


def _made(step: Step, value: ActionInput, context: RunContext) -> Stored:
    """Return the entry of an action that another one reads; raises ActionError when it is gone."""
    stored = context.store.get(context.keys[value.action])
    if stored is None or value.output not in stored.entry.outputs:
        message = f"{step.action.id} needs {value.output} of {value.action}, which is no longer in the store"
        raise ActionError.of(message, hint="something removed it while this ran: run the same command again")
    return stored


def _sources(step: Step, context: RunContext) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for name, value in step.action.inputs.items():
        if isinstance(value, FileInput):
            found[name] = Source(value.path, value.members)
        elif isinstance(value, ImageInput):
            found[name] = Source(Path(value.path), in_image=True)
        else:
            found[name] = Source(_made(step, value, context).path(value.output))
    return found


def _judge(step: Step, end: Exit, out: Path, log: Path, reported: Diagnostic | None) -> Diagnostic | None:
    if end.status:
        tail = failure.tail(log)
        causes = failure.errors(log)
        return failure.of_status(step.action, end.status, tail, (out, log.parent), causes, reported)
    missing = [name for name in step.action.outputs if not os.path.lexists(out / name)]
    return failure.of_missing(step.action.id, missing) if missing else None


def _changed(action: Action) -> Diagnostic | None:
    """Return an error for a file that differs from the one in the action's key: the output must not get that key."""
    for value in action.inputs.values():
        if isinstance(value, FileInput) and value.parts:
            known = dict(value.parts)
            for name, now_is in digest.of_each(value.path, [value.path / part for part in known]).items():
                if known[name] != now_is:
                    hint = "run the same command again; what is finished is kept"
                    return Diagnostic(f"{value.path / name} changed while {action.id} ran", hint=hint)
    return None


def _failed(
    step: Step, context: RunContext, reason: Reason, seconds: float, error: Diagnostic, status: int | None
) -> ActionResult:
    log = context.log(step)
    _write_down(step, context, seconds, "failed")
    there = log if log.exists() else None
    tail = failure.errors(log) if step.action.parallel else failure.tail(log)
    return ActionResult(step.action.id, "failed", reason, seconds, there, error, tail, status)


def _write_down(step: Step, context: RunContext, seconds: float, result: Literal["ok", "failed"]) -> None:
    name, log = step.action.id, str(context.log(step))
    entry = LedgerEntry(now(), context.project, name, step.key, step.facts, round(seconds, 3), result, log)
    with suppress(OSError):  # only the next run's reasons suffer: what was made is in the store already
        context.ledger.append(entry)
