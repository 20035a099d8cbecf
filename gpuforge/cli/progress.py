"""Progress on standard error: a live display on a terminal, else plain lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gpuforge.cli.action_reason import why
from gpuforge.cli.failure_text import failure, print_text
from gpuforge.cli.live_progress import LiveProgress
from gpuforge.cli.plan_progress import PlanProgress, stopping, where
from gpuforge.diagnostics import shown
from gpuforge.execute.failure import last_line
from gpuforge.execute.observer import Observer
from gpuforge.execute.outcome import ActionResult, Step
from gpuforge.execute.times import short_seconds
from gpuforge.plan.action import Action

_QUIET = 60.0  # seconds without a line, after which one says what runs


@contextmanager
def progress(
    console: Console | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Observer]:
    """Show the progress of a run on `console` (default: standard error) inside the `with` block."""
    screen = console or Console(stderr=True, highlight=False)
    if screen.is_terminal and not screen.is_dumb_terminal:
        display = LiveProgress(screen, clock)
        try:
            yield display
        finally:
            display.close()
    else:
        plain = PlainProgress(screen, clock)
        over = threading.Event()
        beat = threading.Thread(target=_beat, args=(plain, over), daemon=True)
        beat.start()
        try:
            yield plain
        finally:
            over.set()
            beat.join()


def _beat(plain: PlainProgress, over: threading.Event) -> None:
    while not over.wait(_QUIET / 4):
        plain.beat()


class PlainProgress:
    """One line for each start and each end, with the time since the beginning: for logs and CI."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._begin = self._last = clock()
        self._guard = threading.Lock()  # another thread calls `beat`
        self._to_run: frozenset[str] = frozenset()
        self._plan = PlanProgress(())

    def beat(self) -> None:
        """Print what runs if nothing was printed for a while: CI systems stop jobs that are silent."""
        with self._guard:
            now = self._clock()
            running = [*self._plan.running.values()]
            if now - self._last < _QUIET or not running:
                return
            for each in running:
                line = last_line(each.log)
                said = f": {line}" if line else ""
                took = short_seconds(now - each.since)
                self._line("runs", f"{where(each.action)}{each.action.title} ({took} so far){said}")

    def on_plan(self, steps: Sequence[Step], run: frozenset[str]) -> None:
        """Print the number of actions."""
        self._plan = PlanProgress(step.action for step in steps)
        self._to_run = run
        if run:
            self._line("plan", f"{len(run)} of {len(steps)} actions to run")

    def on_start(self, action: Action, log: Path) -> None:
        """Print that an action starts."""
        with self._guard:
            self._plan.start(action, self._clock(), log)
            self._line("start", f"{where(action)}{action.title}")

    def on_wait(self, action: Action, what: str) -> None:
        """Print why an action waits."""
        if what:
            self._line("waits", f"{where(action)}{action.title}: {what}")

    def on_interrupt(self) -> None:
        """Print that the running commands are being stopped, and what is removed."""
        self._line("stop", f"interrupted: {stopping(len(self._plan.running))} (once more to stop by force)")

    def on_finish(self, action: Action, result: ActionResult) -> None:
        """Print how an action ended, unless it did not have to run."""
        with self._guard:
            self._plan.finish(action, result, self._clock())
            self._finished(action, result)

    def _finished(self, action: Action, result: ActionResult) -> None:
        if action.id not in self._to_run:
            return
        if result.state == "not-run":
            self._line("skipped", f"{where(action)}{action.title}: {why(result.reason)}")
        else:
            self._line(result.state, f"{where(action)}{action.title} ({short_seconds(result.seconds)})")
        if result.state == "failed":
            print_text(self._console, failure(action, result))
        if len(self._plan.ended) == self._plan.total:
            self._line("end", self._plan.counts())

    def _line(self, what: str, text: str) -> None:
        self._last = self._clock()
        print_text(self._console, Text(f"[{self._clock() - self._begin:7.1f} s] {what:9} {shown(text)}"))
