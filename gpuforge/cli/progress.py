"""Live progress on standard error: a table of cells on a terminal, plain lines anywhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gpuforge.cli.plan_progress import Cell, CellState, PlanProgress
from gpuforge.execute.observer import Observer
from gpuforge.execute.outcome import ActionResult, Step
from gpuforge.execute.times import short_seconds
from gpuforge.plan.action import Action

_MARKS: dict[CellState, tuple[str, str, str]] = {  # mark, the same in ASCII, style
    "failed": ("✗", "x", "bold red"),
    "stopped": ("-", "-", "yellow"),
    "waiting": ("·", ".", "dim"),
    "done": ("✓", "+", "green"),
    "up to date": ("✓", "+", "green"),
}
_FIRST = ("running", "failed", "stopped", "waiting", "done", "up to date")  # when not all cells fit


@contextmanager
def progress(
    console: Console | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Observer]:
    """Show on `console` (default: standard error) how a run goes, for as long as the `with` lasts."""
    screen = console or Console(stderr=True, highlight=False)
    if screen.is_terminal and not screen.is_dumb_terminal:
        display = LiveProgress(screen, clock)
        try:
            yield display
        finally:
            display.close()
    else:
        yield PlainProgress(screen, clock)


class PlainProgress:
    """One line for each start and each end, with the time since the begin: for logs and CI."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._begin = clock()
        self._to_run: frozenset[str] = frozenset()
        self._plan = PlanProgress(())

    def on_plan(self, steps: Sequence[Step], run: frozenset[str]) -> None:
        """Say how much there is to do."""
        self._plan = PlanProgress(step.action for step in steps)
        self._to_run = run
        if run:
            self._line("plan", f"{len(run)} of {len(steps)} actions to run")

    def on_start(self, action: Action) -> None:
        """Say what starts."""
        self._plan.start(action, self._clock())
        self._line("start", f"{_where(action)}{action.title}")

    def on_wait(self, action: Action, what: str) -> None:
        """Say what an action waits for."""
        self._line("waits", f"{_where(action)}{action.title}: {what}")

    def on_interrupt(self) -> None:
        """Say that the running commands are being stopped."""
        self._line("stop", "interrupted: stopping what runs (once more to stop it by force)")

    def on_finish(self, action: Action, result: ActionResult) -> None:
        """Say how an action ended, unless it never had to run."""
        self._plan.finish(action, result, self._clock())
        if action.id not in self._to_run:
            return
        if result.state == "not-run":
            self._line(
                "skipped", f"{_where(action)}{action.title}: {result.reason.removeprefix('not run: ')}"
            )
        else:
            self._line(result.state, f"{_where(action)}{action.title} ({short_seconds(result.seconds)})")
        if result.state == "failed":
            _print(self._console, failure(action, result))
        if len(self._plan.ended) == self._plan.total:
            self._line("end", self._plan.counts())

    def _line(self, what: str, text: str) -> None:
        _print(self._console, Text(f"[{self._clock() - self._begin:7.1f} s] {what:9} {text}"))


class LiveProgress:
    """A table of cells that is drawn anew several times a second; failures are printed above it."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._begin = clock()
        self._guard = threading.Lock()  # the display is drawn on a thread of its own
        self._plan = PlanProgress(())
        self._live: Live | None = None
        self._stopping = False
        self._spinner = Spinner("dots" if _unicode(console) else "line", style="cyan")

    def on_plan(self, steps: Sequence[Step], run: frozenset[str]) -> None:
        """Begin to draw, if there is anything to do."""
        self._plan = PlanProgress(step.action for step in steps)
        if run:
            self._live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=8)
            self._live.start()

    def on_start(self, action: Action) -> None:
        """Show an action in its cells."""
        with self._guard:
            self._plan.start(action, self._clock())

    def on_wait(self, action: Action, what: str) -> None:
        """Show what an action waits for."""
        with self._guard:
            self._plan.wait(action, what)

    def on_interrupt(self) -> None:
        """Show that the running commands are being stopped."""
        self._stopping = True

    def on_finish(self, action: Action, result: ActionResult) -> None:
        """Show that an action ended; print what is to be said of a failed one."""
        with self._guard:
            self._plan.finish(action, result, self._clock())
        if result.state == "failed":
            _print(self._console, failure(action, result))

    def close(self) -> None:
        """Draw the table for the last time, with all cells, and leave it there."""
        if self._live:
            live, self._live = self._live, None
            live.stop()

    def _draw(self) -> RenderableType:
        with self._guard:
            now = self._clock()
            cells = list(self._plan.cells.values())
            shown = self._fitting(cells) if self._live else cells
            table = Table.grid(padding=(0, 1), expand=True)
            table.add_column(width=1)
            table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(20, self._console.width // 3))
            table.add_column(justify="right", no_wrap=True)
            table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
            table.add_column(justify="right", no_wrap=True)
            for cell in shown:
                table.add_row(*self._row(cell, now))
            last = [
                Text(
                    self._foot(len(cells) - len(shown), now), style="bold", no_wrap=True, overflow="ellipsis"
                )
            ]
            return Group(table, *last)

    def _fitting(self, cells: list[Cell]) -> list[Cell]:
        """Return the cells to show where the terminal is too low for all: what runs or failed goes first."""
        room = max(1, self._console.height - 3)
        if len(cells) <= room:
            return cells
        first = sorted(cells, key=lambda cell: _FIRST.index(cell.state))[:room]
        return [cell for cell in cells if cell in first]

    def _row(self, cell: Cell, now: float) -> tuple[RenderableType, ...]:
        count = Text(f"{cell.done}/{cell.total}", style="dim")
        spent = Text(_clock_text(cell.seconds(now)) if cell.begin is not None else "", style="dim")
        name = Text(cell.name)
        if cell.state == "running":
            return self._spinner, name, count, _doing(cell), spent
        mark, plain, style = _MARKS[cell.state]
        text = cell.blame if cell.state in {"failed", "stopped"} else cell.state
        return (
            Text(mark if _unicode(self._console) else plain, style=style),
            name,
            count,
            Text(text, style),
            spent,
        )

    def _foot(self, hidden: int, now: float) -> str:
        more = f"… and {hidden} more cells; " if hidden else ""
        stopping = "; stopping what runs (Ctrl-C: by force)" if self._stopping and self._live else ""
        return f"{more}{self._plan.counts()}, {_clock_text(now - self._begin)}{stopping}"


def failure(action: Action, result: ActionResult) -> Text:
    """Return what to say of a failed action: what it was, its last lines, the cause, the log, the next step."""
    text = Text.assemble(("failed: ", "bold red"), (action.title, "bold"), "\n")
    for line in _before_message(result):
        text.append("  | ", style="dim").append(f"{line}\n")
    if result.error:
        text.append("  why:  ", style="bold").append(f"{result.error.message}\n")
    if result.log:
        text.append("  log:  ", style="bold").append(f"{result.log}\n")
    if result.error and result.error.hint:
        text.append("  hint: ", style="bold").append(f"{result.error.hint}\n")
    text.right_crop(1)
    return text


def _before_message(result: ActionResult) -> tuple[str, ...]:
    """Return the last lines without the command's own `error: …`, which is told as the cause."""
    said = f"error: {result.error.message}" if result.error else ""
    return result.tail[: result.tail.index(said)] if said in result.tail else result.tail


def _doing(cell: Cell) -> Text:
    running = sorted(cell.running.values(), key=lambda each: each.since)
    more = f" (+{len(running) - 1})" if len(running) > 1 else ""
    first = running[0]
    if first.waits:
        return Text(f"waits: {first.waits}{more}", style="yellow")
    return Text(f"{first.title}{more}")


def _where(action: Action) -> str:
    if not action.cells:
        return ""
    return f"{action.cells[0]}: " if len(action.cells) == 1 else f"{len(action.cells)} cells: "


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _unicode(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")


def _print(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=True)
