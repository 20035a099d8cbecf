"""The port to whoever shows how a run goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpuforge.execute.outcome import ActionResult, Step
from gpuforge.plan.action import Action


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
