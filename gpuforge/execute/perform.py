"""Performs one step: finds its inputs, runs it, keeps what it made."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from gpuforge import digest
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import ActionError, GpuforgeError
from gpuforge.execute import failure, locks
from gpuforge.execute.ledger import Entry, Ledger
from gpuforge.execute.model import ActionResult, Step, now
from gpuforge.execute.record import Record
from gpuforge.execute.runners.runner import Exit, Runner, Source, Task
from gpuforge.execute.store import Store, Stored
from gpuforge.execute.verdict import reuse
from gpuforge.plan.action import Action, ActionInput, FileInput, ImageInput
from gpuforge.plan.keys import FORMAT

_SAME = "reused: what it reads is made anew, and as it was"
_POLL = 0.1  # seconds between looks at a lock that another process holds


@dataclass(frozen=True, slots=True)
class Workshop:
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
    shop: Workshop,
    reason: str,
    jobs: int,
    waits: Callable[[str], None],
) -> ActionResult:
    """Run a step and return how it ended; what the machine or the command does wrong is a result too.

    `reason` says why it runs, `jobs` how many processes it may run side by side; `waits` is called when another
    gpuforge already does this work.
    """
    name = step.action.id
    begin = time.monotonic()
    try:
        turn = _take_turn(step.key, shop, partial(waits, "another gpuforge is doing the same work"))
        if turn is None:
            return ActionResult(name, "cancelled", "interrupted before it started")
        with turn:
            stored = shop.store.get(step.key)
            if stored is not None:  # another gpuforge made it between the plan and now
                return ActionResult(name, "reused", reuse(stored).reason, stored.record.seconds)
            if step.action.by_content:
                return _run_by_content(step, shop, reason, jobs, waits)
            return _run(step, shop, reason, jobs, step.key)
    except (OSError, GpuforgeError) as error:
        status = error.exit_code if isinstance(error, GpuforgeError) else None
        return _failed(step, shop, reason, time.monotonic() - begin, failure.of_error(name, error), status)


def _take_turn(key: str, shop: Workshop, waits: Callable[[], None]) -> AbstractContextManager[Any] | None:
    told = False
    while not shop.stop.is_set():
        turn = shop.store.claim(key)
        if turn is not None:
            return turn
        if not told:
            waits()
            told = True
        shop.stop.wait(_POLL)
    return None


def _run_by_content(
    step: Step, shop: Workshop, reason: str, jobs: int, waits: Callable[[str], None]
) -> ActionResult:
    """Run a step unless the same was made of the same content, also by another step that does so just now."""
    key = _content_key(step, shop)
    turn = _take_turn(key, shop, partial(waits, "the same is made of the same content just now"))
    if turn is None:
        return ActionResult(step.action.id, "cancelled", "interrupted before it started")
    with turn:
        stored = shop.store.get(key)
        if stored is None:
            return _run(step, shop, reason, jobs, key)
        shop.store.alias(step.key, key)
    _write_down(step, shop, 0.0, "ok")
    return ActionResult(step.action.id, "reused", _SAME, stored.record.seconds)


def _run(step: Step, shop: Workshop, reason: str, jobs: int, key: str) -> ActionResult:
    """Run a step and keep what it made under `key`, of which the step's own key is another name."""
    action, log = step.action, shop.log(step)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")  # what an earlier run said is not this run's
    inputs = _sources(step, shop)
    with shop.store.scratch() as out:
        end = shop.runner.run(Task(action, inputs, out, log, jobs))
        if end.cancelled:
            return ActionResult(action.id, "cancelled", "interrupted", end.seconds, log)
        error = _judge(step, end, out, log) or _changed(action)
        if error:
            return _failed(step, shop, reason, end.seconds, error, end.status)
        shop.store.commit(key, out, Record(action.id, end.seconds, now(), action.outputs))
        if key != step.key:
            shop.store.alias(step.key, key)
    _write_down(step, shop, end.seconds, "ok")
    return ActionResult(action.id, "done", reason, end.seconds, log)


def _content_key(step: Step, shop: Workshop) -> str:
    """Return the key of an action by what it reads holds, not by how that was made.

    So a change that changes nothing further down, such as a comment in a source, ends where its effect ends.
    """
    facts = dict(step.facts)
    for name, value in step.action.inputs.items():
        if isinstance(value, ActionInput):
            facts[f"input {name}"] = _made(step, value, shop).content(value.output)
    action = step.action
    return digest.of_data([FORMAT, "content", action.kind, facts, list(action.outputs), action.network])


def _made(step: Step, value: ActionInput, shop: Workshop) -> Stored:
    """Return the entry of an action that another one reads; raises ActionError when it is gone."""
    stored = shop.store.get(shop.keys[value.action])
    if stored is None or value.output not in stored.record.outputs:
        message = f"{step.action.id} needs {value.output} of {value.action}, which is no longer in the store"
        raise ActionError.of(message, hint="something removed it while this ran: run the same command again")
    return stored


def _sources(step: Step, shop: Workshop) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for name, value in step.action.inputs.items():
        if isinstance(value, FileInput):
            found[name] = Source(value.path, value.members)
        elif isinstance(value, ImageInput):
            found[name] = Source(Path(value.path), in_image=True)
        else:
            found[name] = Source(_made(step, value, shop).path(value.output))
    return found


def _judge(step: Step, end: Exit, out: Path, log: Path) -> Diagnostic | None:
    if end.status:
        tail = failure.tail(log)
        return failure.of_status(step.action, end.status, tail, (out, log.parent), failure.errors(log))
    missing = [name for name in step.action.outputs if not os.path.lexists(out / name)]
    return failure.of_missing(step.action.id, missing) if missing else None


def _changed(action: Action) -> Diagnostic | None:
    """Say which file differs from what the action's key was made of: its output must not be stored under it."""
    for value in action.inputs.values():
        if isinstance(value, FileInput) and value.parts:
            known = dict(value.parts)
            for name, now_is in digest.of_each(value.path, [value.path / part for part in known]).items():
                if known[name] != now_is:
                    hint = "run the same command again; what is finished is kept"
                    return Diagnostic(f"{value.path / name} changed while {action.id} ran", hint=hint)
    return None


def _failed(
    step: Step, shop: Workshop, reason: str, seconds: float, error: Diagnostic, status: int | None
) -> ActionResult:
    log = shop.log(step)
    _write_down(step, shop, seconds, "failed")
    there = log if log.exists() else None
    tail = failure.errors(log) if step.action.parallel else failure.tail(log)
    return ActionResult(step.action.id, "failed", reason, seconds, there, error, tail, status)


def _write_down(step: Step, shop: Workshop, seconds: float, result: Literal["ok", "failed"]) -> None:
    name, log = step.action.id, str(shop.log(step))
    entry = Entry(now(), shop.project, name, step.key, step.facts, round(seconds, 3), result, log)
    with suppress(OSError):  # only the next run's reasons suffer: what was made is in the store already
        shop.ledger.append(entry)
