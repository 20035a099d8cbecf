"""The live display of a build: the cells, the running actions, and the progress of the plan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gpuforge.cli.failure_text import failure, print_text
from gpuforge.cli.plan_progress import CellProgress, CellState, PlanProgress, Running, stopping, where
from gpuforge.diagnostics import shown
from gpuforge.execute.failure import last_line
from gpuforge.execute.outcome import ActionResult, Step
from gpuforge.plan.action import Action

_MARKS: dict[CellState, tuple[str, str, str]] = {  # mark, the same in ASCII, style
    "running": ("·", ".", "cyan"),
    "failed": ("✗", "x", "bold red"),
    "stopped": ("-", "-", "yellow"),
    "waiting": ("·", ".", "dim"),
    "done": ("✓", "+", "green"),
    "up to date": ("✓", "+", "green"),
}
_FIRST = ("running", "failed", "stopped", "waiting", "done", "up to date")  # the order if not all cells fit
_MARGIN = 3  # free lines of a terminal; one is the last line of the display


class LiveProgress:
    """A display that is redrawn several times a second; failures are printed above it."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._begin = clock()
        self._guard = threading.Lock()  # the display is drawn on a thread of its own
        self._plan = PlanProgress(())
        self._live: Live | None = None
        self._stopping = False
        self._unicode = console.encoding.lower().startswith("utf")
        self._spinner = Spinner("dots" if self._unicode else "line", style="cyan")

    def on_plan(self, steps: Sequence[Step], run: frozenset[str]) -> None:
        """Start the display if any action runs."""
        self._plan = PlanProgress(step.action for step in steps)
        if run:
            self._live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=8)
            self._live.start()

    def on_start(self, action: Action, log: Path) -> None:
        """Show an action."""
        with self._guard:
            self._plan.start(action, self._clock(), log)

    def on_wait(self, action: Action, what: str) -> None:
        """Show why an action waits."""
        with self._guard:
            self._plan.wait(action, what)

    def on_interrupt(self) -> None:
        """Show that the running commands are being stopped."""
        self._stopping = True

    def on_finish(self, action: Action, result: ActionResult) -> None:
        """Show that an action ended; print the failure of one that failed."""
        with self._guard:
            self._plan.finish(action, result, self._clock())
        if result.state == "failed":
            print_text(self._console, failure(action, result))

    def close(self) -> None:
        """Draw all cells for the last time, and leave them there."""
        if self._live:
            live, self._live = self._live, None
            live.stop()

    def _draw(self) -> RenderableType:
        with self._guard:
            now = self._clock()
            room = max(2, self._console.height - _MARGIN)
            running = list(self._plan.running.values())[: room - 1] if self._live else []
            cells = list(self._plan.cells.values())
            drawn = _fitting(cells, room - len(running)) if self._live else cells
            table = _grid()
            for cell in drawn:
                table.add_row(*self._cell(cell, now))
            actions = _grid()
            spare = room - len(drawn) - len(running)  # lines for the output of the longest running actions
            for each in running:
                actions.add_row(*self._action(each, now))
                if spare > 0 and (line := last_line(each.log)):
                    spare -= 1
                    actions.add_row("", Text(f"  {shown(line)}", style="dim"), "")
            hidden = (len(cells) - len(drawn), len(self._plan.running) - len(running) if self._live else 0)
            last = Text(self._last_line(*hidden, now), style="bold", no_wrap=True, overflow="ellipsis")
            return Group(*[each for each in (table, actions) if each.row_count], last)

    def _cell(self, cell: CellProgress, now: float) -> tuple[RenderableType, ...]:
        mark, plain, style = _MARKS[cell.state]
        text = cell.blame if cell.state in {"failed", "stopped"} else cell.state
        return (
            Text(mark if self._unicode else plain, style=style),
            Text.assemble(cell.name, " ", (f"{cell.done}/{cell.total}", "dim"), " ", (shown(text), style)),
            Text(_clock_text(cell.seconds(now)) if cell.begin is not None else "", style="dim"),
        )

    def _action(self, running: Running, now: float) -> tuple[RenderableType, ...]:
        text = Text.assemble((where(running.action), "dim"), shown(running.action.title))
        if running.waits:
            text.append(f" (waits: {shown(running.waits)})", style="yellow")
        return self._spinner, text, Text(_clock_text(now - running.since), style="dim")

    def _last_line(self, cells: int, actions: int, now: float) -> str:
        """Return the progress of the plan, after the number of lines that do not fit on the terminal."""
        hidden = [f"{cells} more cells"] * bool(cells) + [f"{actions} more actions that run"] * bool(actions)
        more = f"… and {' and '.join(hidden)}; " if hidden else ""
        stops = self._stopping and self._live
        what = f"; {stopping(len(self._plan.running))} (Ctrl-C: by force)" if stops else ""
        return f"{more}{self._plan.counts()}, {_clock_text(now - self._begin)}{what}"


def _grid() -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    return table


def _fitting(cells: list[CellProgress], room: int) -> list[CellProgress]:
    """Return the cells to show if the terminal is too low for all: running and failed ones come first."""
    if len(cells) <= room:
        return cells
    first = sorted(cells, key=lambda cell: _FIRST.index(cell.state))[:room]
    return [cell for cell in cells if cell in first]


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
