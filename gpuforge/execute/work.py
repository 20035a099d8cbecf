"""The work of one action, on any machine: find its inputs, run it, keep its outputs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gpuforge import digest
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import ActionError, GpuforgeError
from gpuforge.execute import failure
from gpuforge.execute.integrity import survey
from gpuforge.execute.outcome import ActionReason, ActionResult
from gpuforge.execute.runners.runner import Exit, InputPath, Runner, Task
from gpuforge.execute.store import Store, Stored, WorkStore
from gpuforge.execute.store_entry import StoreEntry
from gpuforge.execute.times import now
from gpuforge.execute.verdict import reuse
from gpuforge.plan import step_result
from gpuforge.plan.action import Action, ActionInput, FileInput, ImageInput
from gpuforge.plan.keys import FORMAT, Fact, labelled
from gpuforge.plan.step_result import StepResult

_INTERRUPTED = ActionReason("interrupted")
_NOT_STARTED = ActionReason("not-started")
_NOTES = 60  # lines shown of a step's notes
_POLL = 0.1  # seconds between looks at a lock that another process holds


@dataclass(frozen=True, slots=True)
class Work:
    """One action to do, as data that can be sent to another machine.

    `facts` are the parts of its `key`, `made` the keys of the actions whose outputs it reads, by id; `reason` is why it
    runs, and `jobs` how many processes it may run side by side. `sources` are the paths of its `FileInput`s, by name,
    if they are not at their own paths.
    """

    action: Action
    key: str
    facts: Mapping[Fact, str]
    made: Mapping[str, str]
    reason: ActionReason
    jobs: int = 1
    sources: Mapping[str, InputPath] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workplace:
    """A place of work: a store, a runner, and an event that ends all waiting for others."""

    store: WorkStore
    runner: Runner
    stop: threading.Event = field(default_factory=threading.Event)

    def halt(self) -> None:
        """Ask running commands to stop, kill those that do not, start nothing more; return when none runs."""
        self.stop.set()
        self.runner.cancel()

    def do(self, work: Work, log: Path, waits: Callable[[str], None]) -> ActionResult:
        """Do some work and return how it ended; a failure of the machine or the command is a result, too.

        The command's output goes to `log`; `waits` is called when another gpuforge already does this work.
        """
        begin = time.monotonic()
        try:
            return self._do(work, log, waits)
        except (OSError, GpuforgeError) as error:
            return failed_by(error, work, log, time.monotonic() - begin)

    def _do(self, work: Work, log: Path, waits: Callable[[str], None]) -> ActionResult:
        name = work.action.id
        turn = self._take_turn(work.key, partial(waits, "another gpuforge is doing the same work"))
        if turn is None:
            return ActionResult(name, "cancelled", _NOT_STARTED)
        with turn:
            stored = self.store.get(work.key, links_out=work.action.links_out)
            if stored is not None:  # another gpuforge has made it since the verdict
                return ActionResult(name, "reused", reuse(stored).reason, stored.entry.seconds)
            if work.action.by_content:
                return self._do_by_content(work, log, waits)
            return self._run(work, log, work.key)

    def _take_turn(self, key: str, waits: Callable[[], None]) -> AbstractContextManager[Any] | None:
        reported = False
        while not self.stop.is_set():
            turn = self.store.claim(key)
            if turn is not None:
                return turn
            if not reported:
                waits()
                reported = True
            self.stop.wait(_POLL)
        return None

    def _do_by_content(self, work: Work, log: Path, waits: Callable[[str], None]) -> ActionResult:
        """Run an action unless an entry for the same content of its inputs exists, or is being made."""
        key = _content_key(work, self.store)
        turn = self._take_turn(key, partial(waits, "the same is made of the same content just now"))
        if turn is None:
            return ActionResult(work.action.id, "cancelled", _NOT_STARTED)
        with turn:
            stored = self.store.get(key, links_out=work.action.links_out)
            if stored is None:
                return self._run(work, log, key)
            self.store.alias(work.key, key)
        return ActionResult(work.action.id, "reused", ActionReason("same-content"), stored.entry.seconds)

    def _run(self, work: Work, log: Path, key: str) -> ActionResult:
        """Run an action and keep its outputs under `key`; the action's own key becomes an alias."""
        action = work.action
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")  # not the output of an earlier run
        inputs = _sources(work, self.store)
        with self.store.scratch() as out:
            end = self.runner.run(Task(action, inputs, out, log, work.jobs))
            result = StepResult.read(out / step_result.FILE)
            with suppress(IsADirectoryError):  # the store removes it as something that is not an output
                (out / step_result.FILE).unlink(missing_ok=True)
            if end.cancelled:
                return ActionResult(action.id, "cancelled", _INTERRUPTED, end.seconds, log)
            error = _judge(action, end, out, log, result.error) or _changed(work)
            if error:
                failed = _failed(work, log, end.seconds, error, end.status, result.notes)
                return replace(failed, kept=end.kept)
            try:
                files = survey(out, action.outputs, links_out=action.links_out, stop=self.stop.is_set)
            except InterruptedError:
                return ActionResult(action.id, "cancelled", _INTERRUPTED, end.seconds, log)
            entry = StoreEntry(action.id, end.seconds, now(), action.outputs, files)
            self.store.commit(key, out, entry, links_out=action.links_out)
            if key != work.key:
                self.store.alias(work.key, key)
        return ActionResult(action.id, "done", work.reason, end.seconds, log, counts=result.counts)


def failed_by(error: OSError | GpuforgeError, work: Work, log: Path, seconds: float) -> ActionResult:
    """Return the result of work that an error ended."""
    status = error.exit_code if isinstance(error, GpuforgeError) else None
    return _failed(work, log, seconds, failure.of_error(work.action.id, error), status)


def _failed(
    work: Work,
    log: Path,
    seconds: float,
    error: Diagnostic,
    status: int | None,
    notes: Sequence[str] = (),
) -> ActionResult:
    there = log if log.exists() else None
    tail = tuple(notes[:_NOTES]) or (failure.errors(log) if work.action.parallel else failure.tail(log))
    return ActionResult(work.action.id, "failed", work.reason, seconds, there, error, tail, status)


def _content_key(work: Work, store: Store) -> str:
    """Return the key of an action by the content of its inputs, not by how they were made.

    A change without an effect on the outputs, such as a comment in a source, thus causes no further work.
    """
    facts = dict(work.facts)
    for name, value in work.action.inputs.items():
        if isinstance(value, ActionInput):
            facts[Fact("input", name)] = _made(work, value, store).content(value.output)
    action = work.action
    return digest.of_data(
        [FORMAT, "content", action.kind, labelled(facts), list(action.outputs), action.network]
    )


def _made(work: Work, value: ActionInput, store: Store) -> Stored:
    """Return the entry of an action that another one reads; raises ActionError when it is gone."""
    stored = store.get(work.made[value.action], links_out=value.links_out)
    if stored is None or value.output not in stored.entry.outputs:
        message = f"{work.action.id} needs {value.output} of {value.action}, which is no longer in the store"
        raise ActionError.of(message, hint="something removed it while this ran: run the same command again")
    return stored


def _sources(work: Work, store: Store) -> dict[str, InputPath]:
    found: dict[str, InputPath] = {}
    for name, value in work.action.inputs.items():
        if isinstance(value, FileInput):
            found[name] = work.sources.get(name) or InputPath(value.path, value.members)
        elif isinstance(value, ImageInput):
            found[name] = InputPath(Path(value.path), in_image=True)
        else:
            found[name] = InputPath(_made(work, value, store).path(value.output))
    return found


def _judge(action: Action, end: Exit, out: Path, log: Path, reported: Diagnostic | None) -> Diagnostic | None:
    if end.status:
        tail = failure.tail(log)
        causes = failure.errors(log)
        return failure.of_status(action, end.status, tail, (out, log.parent), causes, reported)
    missing = [name for name in action.outputs if not os.path.lexists(out / name)]
    return failure.of_missing(action.id, missing) if missing else None


def _changed(work: Work) -> Diagnostic | None:
    """Return an error for a file that differs from the one in the action's key: the output must not get that key."""
    for name, value in work.action.inputs.items():
        if isinstance(value, FileInput) and value.parts and name not in work.sources:
            known = dict(value.parts)
            for part, now_is in digest.of_each(value.path, [value.path / part for part in known]).items():
                if known[part] != now_is:
                    return changed(value.path / part, work.action.id)
    return None


def changed(file: Path, action: str) -> Diagnostic:
    """Return the error for a file that was changed while an action used it."""
    hint = (
        "run the same command again; finished work is kept. What is written during the build, such as a log, "
        "belongs outside the project's folder, or into its dist/"
    )
    return Diagnostic(f"{file} changed while {action} ran", hint=hint)
