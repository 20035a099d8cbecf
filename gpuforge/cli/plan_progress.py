"""The progress of a running plan, cell by cell, for the displays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from gpuforge.cli.action_reason import words
from gpuforge.execute.outcome import ActionResult
from gpuforge.plan.action import Action

CellState = Literal["running", "failed", "stopped", "waiting", "done", "up to date"]
SHARED = "all cells"  # the title for actions without a cell


@dataclass(frozen=True, slots=True)
class Running:
    """A running action: its start (seconds of a monotonic clock), and what it waits for, if anything."""

    action: Action
    since: float
    log: Path
    waits: str = ""


@dataclass(slots=True)
class CellProgress:
    """The actions of one cell: their number, their results, the running ones; times are of a monotonic clock."""

    name: str
    total: int = 0
    ended: dict[str, ActionResult] = field(default_factory=dict)
    failed: Action | None = None  # the first one
    running: set[str] = field(default_factory=set)
    begin: float | None = None
    end: float | None = None

    @property
    def done(self) -> int:
        """Return the number of its actions that are finished."""
        return sum(result.state in {"done", "reused"} for result in self.ended.values())

    @property
    def blame(self) -> str:
        """Return the failed action, or the reason, because of which this cell cannot finish; else ""."""
        if self.failed:
            return f"failed: {self.failed.title}"
        return next((words(r.reason) for r in self.ended.values() if r.state in {"not-run", "cancelled"}), "")

    @property
    def state(self) -> CellState:
        """Return the state of the cell as a whole."""
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
        """Return the seconds since its first action started."""
        if self.begin is None:
            return 0.0
        return (now if self.running or self.end is None else self.end) - self.begin


class PlanProgress:
    """All cells of a plan, in its order; an action that several cells need counts in each of them."""

    def __init__(self, actions: Iterable[Action]) -> None:
        self.cells: dict[str, CellProgress] = {}
        self.total = 0
        self.ended: dict[str, ActionResult] = {}
        self.running: dict[str, Running] = {}  # in the order of their starts
        for action in actions:
            self.total += 1
            for name in action.cells or (SHARED,):
                self.cells.setdefault(name, CellProgress(name)).total += 1

    def _of(self, action: Action) -> list[CellProgress]:
        return [self.cells[name] for name in action.cells or (SHARED,)]

    def start(self, action: Action, now: float, log: Path) -> None:
        """Note that an action runs, and the log of its output."""
        self.running[action.id] = Running(action, now, log)
        for cell in self._of(action):
            cell.running.add(action.id)
            cell.begin = now if cell.begin is None else cell.begin

    def wait(self, action: Action, what: str) -> None:
        """Note that a running action waits for something outside."""
        self.running[action.id] = replace(self.running[action.id], waits=what)

    def finish(self, action: Action, result: ActionResult, now: float) -> None:
        """Note how an action ended."""
        ran = self.running.pop(action.id, None)
        self.ended[action.id] = result
        for cell in self._of(action):
            cell.running.discard(action.id)
            cell.end = now if ran else cell.end
            cell.ended[action.id] = result
            if result.state == "failed" and not cell.failed:
                cell.failed = action

    def counts(self) -> str:
        """Return the progress of the whole plan: `12 of 48 actions, 3 reused, 4 running, 1 failed`."""
        states = [result.state for result in self.ended.values()]
        done, reused = states.count("done"), states.count("reused")
        others = {
            "reused": reused,
            "running": len(self.running),
            "failed": states.count("failed"),
            "not run": states.count("not-run") + states.count("cancelled"),
        }
        parts = [f"{number} {state}" for state, number in others.items() if number]
        return ", ".join([f"{done + reused} of {self.total} actions", *parts])


def stopping(running: int) -> str:
    """Return what an interruption does: "stopping 2 actions and removing their working folders"."""
    actions, their = (
        ("1 action", "its working folder")
        if running == 1
        else (f"{running} actions", "their working folders")
    )
    return f"stopping {actions} and removing {their}; finished work is kept"


def where(action: Action) -> str:
    """Return the cells of an action, to write before its title: "cp311-cu13.0-x86_64: ", "4 cells: " or nothing."""
    if not action.cells:
        return ""
    return f"{action.cells[0]}: " if len(action.cells) == 1 else f"{len(action.cells)} cells: "
