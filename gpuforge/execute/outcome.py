"""The values that flow through the engine: steps go in, results come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from gpuforge.diagnostics import Diagnostic
from gpuforge.plan.action import Action

State = Literal["reused", "done", "failed", "not-run", "cancelled"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an action runs or does not; `why` is text for people, without the verb."""

    verb: Literal["runs", "reused", "not needed", "not run"]
    why: str

    def __str__(self) -> str:
        """Write both: "runs: never ran before"."""
        return f"{self.verb}: {self.why}"


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
    reason: Reason
    seconds: float = 0.0
    log: Path | None = None
    error: Diagnostic | None = None  # only with state "failed"
    tail: tuple[str, ...] = ()  # the last lines of the log of a failed action
    status: int | None = (
        None  # of a failed action: its command's exit status, or the one its error stands for
    )
    counts: Mapping[str, Any] = field(default_factory=dict)  # what a step counted: see `StepResult`
    kept: Path | None = None  # the working directory of a failed action, if it was kept


@dataclass(frozen=True, slots=True)
class Outcome:
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
