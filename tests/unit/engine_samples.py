"""What tests of the engine share: steps, a listener, an engine in memory and one with real processes."""

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memory_store import MemoryLedger, MemoryStore

from gpuforge.execute.engine import Engine
from gpuforge.execute.ledger import Ledger
from gpuforge.execute.outcome import ActionResult, Outcome, Step
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import Exit, Task
from gpuforge.execute.store import FolderStore
from gpuforge.execute.work import Workplace
from gpuforge.plan.action import Action, ActionInput, Kind


class Listener:
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_plan(self, steps: Sequence[Step], run: frozenset[str]) -> None:
        self.events.append(f"plan {len(steps)} run {len(run)}")

    def on_start(self, action: Action, log: Path) -> None:
        self.events.append(f"start {action.id}")

    def on_wait(self, action: Action, what: str) -> None:
        self.events.append(f"wait {action.id}: {what}")

    def on_interrupt(self) -> None:
        self.events.append("interrupt")

    def on_finish(self, action: Action, result: ActionResult) -> None:
        assert action.id == result.id
        self.events.append(f"{result.state} {action.id}")


def step(name: str, *needs: str, code: str = "", key: str = "", kind: Kind = "compile", **more: Any) -> Step:
    inputs = {need: ActionInput(need, "out") for need in needs}
    argv = (sys.executable, "-c", code, "${out:out}", *(f"${{in:{need}}}" for need in needs))
    action = Action(name, kind, name, argv, inputs=inputs, outputs=("out",), **more)
    return Step(action, key or f"{name}-key".ljust(64, "0"), {})


class Rig:
    def __init__(self, top: Path, act: Callable[[Task], int] | None = None) -> None:
        self.store = MemoryStore(top)
        self.ledger = MemoryLedger()
        self.runner = MemoryRunner(act)
        self.listener = Listener()
        self.top = top

    def run(
        self,
        *steps: Step,
        jobs: int = 1,
        targets: tuple[str, ...] = (),
        seconds: float | None = None,
        memory: int | None = 1 << 40,
    ) -> Outcome:
        return Engine(
            steps,
            store=self.store,
            ledger=self.ledger,
            workers=Workplace(self.store, self.runner),
            jobs=jobs,
            observer=self.listener,
            logs=self.top / "logs",
            project="p",
            targets=targets,
            seconds=seconds,
            memory=memory,
        ).run()


def states(outcome: Outcome) -> dict[str, str]:
    return {name: result.state for name, result in outcome.results.items()}


def real(top: Path, steps: Sequence[Step], jobs: int = 2, store: Path | None = None) -> Outcome:
    work = top / "work"
    work.mkdir(exist_ok=True)
    kept = FolderStore(store or top / "store")
    return Engine(
        steps,
        store=kept,
        ledger=Ledger(top / "ledger.jsonl"),
        workers=Workplace(kept, LocalRunner(root=work, grace=0.5)),
        jobs=jobs,
        observer=Listener(),
        logs=top / "logs",
        project="p",
    ).run()


class MemoryRunner:
    """A runner that calls `act` instead of a command and writes a small file for each output."""

    def __init__(self, act: Callable[[Task], int] | None = None) -> None:
        self.memory = 0
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
        return Exit(status, 0.0, cancelled=is_stopped and status != 0, memory=self.memory)

    def stop(self, action: str) -> None:
        """Note it: its task is stopped."""
        self.stopped.append(action)

    def cancel(self) -> None:
        """Let nothing more run."""
        self.cancelled.set()

    def kill(self) -> None:
        """Let nothing more run."""
        self.cancelled.set()
