"""The values that flow through the engine: steps go in, results come out; and the port to their display."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from gpuforge.diagnostics import Diagnostic
from gpuforge.plan.action import Action
from gpuforge.plan.keys import Fact

State = Literal["reused", "done", "failed", "not-run", "cancelled"]


# Why an action runs.
Runs = Literal[
    "first", "upstream", "failed-before", "output-gone", "output-damaged", "changed", "changed-otherwise"
]
# Why an action need not run, and why it was not run.
Rests = Literal["stored", "same-content", "not-needed", "blocked", "useless", "interrupted", "not-started"]


class Change(NamedTuple):
    """A part of an action's key that differs from the last time; None if it was or is not part of the key."""

    fact: Fact
    old: str | None
    new: str | None


class ActionReason(NamedTuple):
    """Why an action runs or does not: a kind, and the facts that this kind has.

    `time` (UTC, ISO 8601) is when it last ran, with "failed-before", "output-gone" and "stored"; `seconds` what
    "stored" saves. `actions` are those that run before it ("upstream"), or the one that is the cause ("blocked",
    "useless"), with its `state`. `problem` is the damage of "output-damaged".
    """

    kind: Runs | Rests
    time: str = ""
    seconds: float = 0.0
    actions: tuple[str, ...] = ()
    state: State | None = None
    problem: str = ""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """An action with its key, and the parts of the key by which a change of it is explained."""

    action: Action
    key: str
    facts: Mapping[Fact, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))


@dataclass(frozen=True, slots=True)
class ActionResult:
    """How one action ended. `seconds` is its running time, or when it was reused the time that this saved."""

    id: str
    state: State
    reason: ActionReason
    seconds: float = 0.0
    log: Path | None = None
    error: Diagnostic | None = None  # only with state "failed"
    tail: tuple[str, ...] = ()  # of a failed action: the lines of its log to show, or its step's own
    # of a failed action: its command's exit status, or the one its error stands for
    status: int | None = None
    counts: Mapping[str, Any] = field(default_factory=dict)  # what a step counted: see `StepResult`
    kept: Path | None = None  # the working directory of a failed action, if it was kept
    memory: int = 0  # the most bytes that one of its processes took; 0: not known


class Outcome(NamedTuple):
    """How a whole plan ended: one result per step, in the plan's order."""

    results: Mapping[str, ActionResult]
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Return whether everything requested is there."""
        return not self.interrupted and all(r.state in {"reused", "done"} for r in self.results.values())

    def having(self, state: State) -> tuple[ActionResult, ...]:
        """Return the results in one state."""
        return tuple(r for r in self.results.values() if r.state == state)


class Observer(Protocol):
    """Shows the progress of a run; every method is called on the thread that called `engine.run`."""

    def on_plan(self, steps: Sequence[Step], run: frozenset[str]) -> None:
        """Take the whole plan, and the ids of the actions that will run, before anything starts."""

    def on_start(self, action: Action, log: Path) -> None:
        """An action got its job slots; its output goes to `log`."""

    def on_wait(self, action: Action, what: str) -> None:
        """A started action waits for something outside, such as another gpuforge; with "", it no longer waits."""

    def on_interrupt(self) -> None:
        """The user interrupted the run; the running commands are stopped next."""

    def on_finish(self, action: Action, result: ActionResult) -> None:
        """An action ended, was reused or cannot run."""
