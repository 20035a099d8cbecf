"""The values that flow through the engine: steps go in, results come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol

from gpuforge.diagnostics import Diagnostic
from gpuforge.plan.action import Action

State = Literal["reused", "done", "failed", "not-run", "cancelled"]


@dataclass(frozen=True, slots=True)
class Step:
    """An action with its key, and the parts of the key by which a change of it is explained."""

    action: Action
    key: str
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))


@dataclass(frozen=True, slots=True)
class ActionResult:
    """How one action ended. `seconds` is its running time, or when it was reused the time that this saved."""

    id: str
    state: State
    reason: str
    seconds: float = 0.0
    log: Path | None = None
    error: Diagnostic | None = None  # only with state "failed"
    tail: tuple[str, ...] = ()  # the last lines of the log of a failed action
    status: int | None = (
        None  # of a failed action: its command's exit status, or the one its error stands for
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a whole plan ended: one result per step, in the plan's order."""

    results: Mapping[str, ActionResult]
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Say whether everything asked for is there."""
        return not self.interrupted and all(r.state in {"reused", "done"} for r in self.results.values())

    def having(self, state: State) -> tuple[ActionResult, ...]:
        """Return the results in one state."""
        return tuple(r for r in self.results.values() if r.state == state)


class Observer(Protocol):
    """Who is told what happens; every method is called on the thread that called `engine.run`."""

    def on_plan(self, steps: Sequence[Step], run: frozenset[str]) -> None:
        """Hear the whole plan, and the ids of the actions that will run, before anything starts."""

    def on_start(self, action: Action) -> None:
        """Hear that an action got its job slots."""

    def on_wait(self, action: Action, what: str) -> None:
        """Hear that a started action waits for something outside, such as another gpuforge."""

    def on_interrupt(self) -> None:
        """Hear that the user asked to stop, before the running commands are stopped."""

    def on_finish(self, action: Action, result: ActionResult) -> None:
        """Hear how an action ended; reused ones and those that cannot run are told too."""


def now() -> str:
    """Return the time in UTC as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def local_time(stamp: str) -> str:
    """Return a time that `now` wrote, as people here read it: `2026-11-21 14:03`."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")


def short_seconds(seconds: float) -> str:
    """Return a running time for people: `0.4 s`, `12.3 s`, `3 min 20 s`, `1 h 02 min`."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"
