"""A runner in memory, for tests: nothing runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from gpuforge.execute.runners.runner import Exit, Task
from gpuforge.plan.action import Action


class MemoryRunner:
    """A runner that calls `act` instead of a command and writes a small file for each output."""

    def __init__(self, act: Callable[[Task], int] | None = None) -> None:
        self.ran: list[str] = []
        self.stopped: list[str] = []
        self.cancelled = threading.Event()
        self._act = act

    def prepare(self, actions: Sequence[Action]) -> None:
        """Do nothing."""

    def run(self, task: Task) -> Exit:
        """Note the action's id, make its outputs, and end with the status that `act` returned."""
        self.ran.append(task.action.id)
        if self.cancelled.is_set() or task.stop.is_set():
            return Exit(-15, 0.0, cancelled=True)
        for name in task.action.outputs:
            (task.out / name).write_text(f"{task.action.id}/{name}\n", encoding="utf-8")
        status = self._act(task) if self._act else 0
        is_stopped = self.cancelled.is_set() or task.stop.is_set()
        return Exit(status, 0.0, cancelled=is_stopped and status != 0)

    def stop(self, action: str) -> None:
        """Note it: its task is stopped."""
        self.stopped.append(action)

    def cancel(self) -> None:
        """Let nothing more run."""
        self.cancelled.set()

    def kill(self) -> None:
        """Let nothing more run."""
        self.cancelled.set()
