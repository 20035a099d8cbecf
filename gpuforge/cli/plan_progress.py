"""The state of a running plan, cell by cell: what the live display shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from gpuforge.execute.outcome import ActionResult
from gpuforge.plan.action import Action

CellState = Literal["running", "failed", "stopped", "waiting", "done", "up to date"]
SHARED = "all cells"  # where actions are shown that name no cell


@dataclass(frozen=True, slots=True)
class Running:
    """An action that runs now: since when (seconds of a monotonic clock), and what it waits for if it does."""

    title: str
    since: float
    waits: str = ""


@dataclass(slots=True)
class Cell:
    """The actions of one cell: how many, how they ended, which run; times are of a monotonic clock."""

    name: str
    total: int = 0
    ended: dict[str, ActionResult] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    begin: float | None = None
    end: float | None = None

    @property
    def done(self) -> int:
        """Return how many of its actions need nothing more."""
        return sum(result.state in {"done", "reused"} for result in self.ended.values())

    @property
    def failed(self) -> tuple[str, ...]:
        """Return the ids of its actions that failed."""
        return tuple(name for name, result in self.ended.items() if result.state == "failed")

    @property
    def blame(self) -> str:
        """Say what stands between this cell and its end, if something does."""
        if self.failed:
            return f"{self.failed[0].removeprefix(f'{self.name}/')} failed"
        return next((r.reason for r in self.ended.values() if r.state in {"not-run", "cancelled"}), "")

    @property
    def state(self) -> CellState:
        """Return what to say of the cell as a whole."""
        states = {result.state for result in self.ended.values()}
        if self.running:
            return "running"
        if "failed" in states:
            return "failed"
        if states & {"cancelled", "not-run"}:
            return "stopped"
        if len(self.ended) < self.total:
            return "waiting"
        return "done" if "done" in states else "up to date"

    def seconds(self, now: float) -> float:
        """Return how long it has been worked on."""
        if self.begin is None:
            return 0.0
        return (now if self.running or self.end is None else self.end) - self.begin


class PlanProgress:
    """All cells of a plan, in its order; an action that several cells need counts in each of them."""

    def __init__(self, actions: Iterable[Action]) -> None:
        self.cells: dict[str, Cell] = {}
        self.total = 0
        self.ended: dict[str, ActionResult] = {}
        self.running: set[str] = set()
        for action in actions:
            self.total += 1
            for name in action.cells or (SHARED,):
                self.cells.setdefault(name, Cell(name)).total += 1

    def _of(self, action: Action) -> list[Cell]:
        return [self.cells[name] for name in action.cells or (SHARED,)]

    def start(self, action: Action, now: float) -> None:
        """Note that an action runs."""
        self.running.add(action.id)
        for cell in self._of(action):
            cell.running[action.id] = Running(action.title, now)
            cell.begin = now if cell.begin is None else cell.begin

    def wait(self, action: Action, what: str) -> None:
        """Note that a running action waits for something outside."""
        for cell in self._of(action):
            before = cell.running[action.id]
            cell.running[action.id] = Running(before.title, before.since, what)

    def finish(self, action: Action, result: ActionResult, now: float) -> None:
        """Note how an action ended."""
        self.running.discard(action.id)
        self.ended[action.id] = result
        for cell in self._of(action):
            if cell.running.pop(action.id, None):
                cell.end = now
            cell.ended[action.id] = result

    def counts(self) -> str:
        """Say how far the whole plan is: `12 of 48 actions, 3 reused, 4 running, 1 failed`."""
        states = [result.state for result in self.ended.values()]
        parts = [
            f"{states.count('done') + states.count('reused')} of {self.total} actions",
            f"{states.count('reused')} reused",
            f"{len(self.running)} running",
            f"{states.count('failed')} failed",
            f"{states.count('not-run') + states.count('cancelled')} not run",
        ]
        return ", ".join([parts[0], *(part for part in parts[1:] if not part.startswith("0 "))])
