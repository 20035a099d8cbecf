"""The work of one action: find its inputs, run it, keep its outputs; and the port to the machines that do it."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from gpuforge import digest
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import ActionError, GpuforgeError
from gpuforge.execute import action_log, failure
from gpuforge.execute.entry import StoreEntry, survey
from gpuforge.execute.outcome import ActionReason, ActionResult
from gpuforge.execute.runners.runner import Exit, InputPath, Runner, Task
from gpuforge.execute.store import Store, Stored
from gpuforge.execute.times import now
from gpuforge.execute.verdict import reuse
from gpuforge.plan.action import RESULT, Action, ActionInput, FileInput, ImageInput, StepResult
from gpuforge.plan.keys import FORMAT, Fact, labelled

_INTERRUPTED = ActionReason("interrupted")
_NOT_STARTED = ActionReason("not-started")
_SAME_WORK = "another gpuforge is doing the same work"
_SAME_CONTENT = "the same is made of the same content just now"
_NOTES = 60  # lines shown of a step's notes
_POLL = 0.1  # seconds between looks at a lock that another process holds


@dataclass(frozen=True, slots=True)
class Work:
    """One action to do, as data that can be sent to another machine.

    `facts` are the parts of its `key`, `made` the keys of the actions whose outputs it reads, by id; `reason` is why it
    runs, and `jobs` how many processes it may run side by side; the one with the highest `priority` goes first.
    `sources` are the paths of its `FileInput`s, by name, if they are not at their own paths.
    """

    action: Action
    key: str
    facts: Mapping[Fact, str]
    made: Mapping[str, str]
    reason: ActionReason
    jobs: int = 1
    priority: int = 0
    sources: Mapping[str, InputPath] = field(default_factory=dict)


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
        """Do some work and return how it ended; a failure of its command is a result, too.

        The command's output goes to `log`; `waits` is called when something else must end first, such as another
        gpuforge that already does this work. Raises GpuforgeError and OSError when the work cannot be done.
        """

    def stop(self, action: str) -> None:
        """Ask the command of one action to stop, and kill it if it does not; `do` returns when it has ended."""

    def cancel(self) -> None:
        """Ask running commands to stop, kill those that do not, start nothing more; return when none runs."""

    def kill(self) -> None:
        """Stop everything at once, by force, and start nothing more."""


class Workplace:
    """This machine as the place of work: each action runs with one `runner`, and its outputs go into one `store`."""

    is_remote = False

    def __init__(self, store: Store, runner: Runner) -> None:
        self._store = store
        self._runner = runner
        self._guard = threading.Lock()
        self._is_over = False
        self._stops: dict[str, threading.Event] = {}  # by action that is being done

    def prepare(self, actions: Sequence[Action]) -> None:
        """Get ready for the actions of a run, before the first starts."""
        self._runner.prepare(actions)

    def take_room(self, action: Action) -> bool:
        """Return True: the caller counts its job slots."""
        return True

    def do(self, work: Work, log: Path, waits: Callable[[str], None]) -> ActionResult:
        """Do some work and return how it ended; see `Workers.do`."""
        name = work.action.id
        with self._stoppable(name) as stop, ExitStack() as turns:
            if not self._take_turn(turns, work.key, stop, partial(waits, _SAME_WORK)):
                return ActionResult(name, "cancelled", _NOT_STARTED)
            stored = self._store.get(work.key, links_out=work.action.links_out)
            if stored is not None:  # another gpuforge has made it since the verdict
                return ActionResult(name, "reused", reuse(stored).reason, stored.entry.seconds)
            if not work.action.by_content:
                return self._run(work, log, work.key, stop)
            key = _content_key(work, self._store)
            if not self._take_turn(turns, key, stop, partial(waits, _SAME_CONTENT)):
                return ActionResult(name, "cancelled", _NOT_STARTED)
            stored = self._store.get(key, links_out=work.action.links_out)
            if stored is None:
                return self._run(work, log, key, stop)
            self._store.alias(work.key, key)
            return ActionResult(name, "reused", ActionReason("same-content"), stored.entry.seconds)

    def enter(self, work: Work, words: Sequence[str], failed: Path) -> int:
        """Run other words where the command of some work would run; see `Runner.enter`."""
        with self._store.scratch() as out:
            return self._runner.enter(Task(work.action, _sources(work, self._store), out), words, failed)

    def stop(self, action: str) -> None:
        """Ask the command of one action to stop, and kill it if it does not."""
        with self._guard:
            if action not in self._stops:
                return
            self._stops[action].set()
        self._runner.stop(action)

    def cancel(self) -> None:
        """Ask running commands to stop, kill those that do not, start nothing more; return when none runs."""
        self._end()
        self._runner.cancel()

    def kill(self) -> None:
        """Stop everything at once, by force, and start nothing more."""
        self._end()
        self._runner.kill()

    def _end(self) -> None:
        with self._guard:
            self._is_over = True
            for stop in self._stops.values():
                stop.set()

    @contextmanager
    def _stoppable(self, action: str) -> Iterator[threading.Event]:
        stop = threading.Event()
        with self._guard:
            self._stops[action] = stop
            if self._is_over:
                stop.set()
        try:
            yield stop
        finally:
            with self._guard:
                del self._stops[action]

    def _take_turn(
        self, turns: ExitStack, key: str, stop: threading.Event, waits: Callable[[], None]
    ) -> bool:
        """Claim the work on a key until the end of `turns`; return False if it was stopped while it waited."""
        reported = False
        while not stop.is_set():
            turn = self._store.claim(key)
            if turn is not None:
                turns.enter_context(turn)
                return True
            if not reported:
                waits()
                reported = True
            stop.wait(_POLL)
        return False

    def _run(self, work: Work, log: Path, key: str, stop: threading.Event) -> ActionResult:
        """Run an action and keep its outputs under `key`; the action's own key becomes an alias."""
        action = work.action
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")  # not the output of an earlier run
        inputs = _sources(work, self._store)
        with self._store.scratch() as out:
            end = self._runner.run(Task(action, inputs, out, log, work.jobs, stop))
            result = StepResult.read(out / RESULT)
            with suppress(IsADirectoryError):  # the store removes it as something that is not an output
                (out / RESULT).unlink(missing_ok=True)
            memory = max(end.memory, result.memory)
            if end.cancelled:
                return ActionResult(action.id, "cancelled", _INTERRUPTED, end.seconds, log)
            error = _judge(action, end, out, log, result.error) or _changed(work)
            if error:
                failed = _failed(work, log, end.seconds, error, end.status, result.notes)
                return replace(failed, kept=end.kept, memory=memory)
            try:
                files = survey(out, action.outputs, links_out=action.links_out, stop=stop.is_set)
            except InterruptedError:
                return ActionResult(action.id, "cancelled", _INTERRUPTED, end.seconds, log)
            entry = StoreEntry(action.id, end.seconds, now(), action.outputs, files)
            self._store.commit(key, out, entry, links_out=action.links_out)
            if key != work.key:
                self._store.alias(work.key, key)
        return ActionResult(
            action.id, "done", work.reason, end.seconds, log, counts=result.counts, memory=memory
        )


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
    tail = tuple(notes[:_NOTES]) or (action_log.errors(log) if work.action.parallel else action_log.tail(log))
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
    return digest.of_data([FORMAT, "content", action.kind, labelled(facts), list(action.outputs)])


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
        tail = action_log.tail(log)
        causes = action_log.errors(log)
        return failure.of_status(action, end.status, tail, (out, log.parent), causes, reported)
    missing = [name for name in action.outputs if not os.path.lexists(out / name)]
    if not missing:
        return None
    what = f"{action.id} ended without an error but did not make {' and '.join(missing)}"
    return Diagnostic(what, hint="its log shows what it did instead")


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
