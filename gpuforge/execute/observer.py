"""The port to the display of a run's progress."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gpuforge.execute.outcome import ActionResult, Step
from gpuforge.plan.action import Action


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
