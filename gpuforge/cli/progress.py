"""The progress of a build on standard error: a live display on a terminal, else plain lines."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gpuforge.cli.build_report import why, words
from gpuforge.diagnostics import shown, shown_lines
from gpuforge.execute.action_log import last_line
from gpuforge.execute.outcome import ActionResult, Observer, Step
from gpuforge.execute.times import short_seconds
from gpuforge.plan.action import Action

CellState = Literal["running", "failed", "stopped", "waiting", "done", "up to date"]
SHARED = "all cells"  # the title for actions without a cell


class Running(NamedTuple):
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
        self.running[action.id] = self.running[action.id]._replace(waits=what)

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


def failure(action: Action, result: ActionResult) -> Text:
    """Return the text about a failed action: its title, its last lines, the cause, the log, the next step.

    Control characters in names of files and in a build's output are escaped for terminals and CI systems.
    """
    text = Text.assemble(("failed: ", "bold red"), (shown(action.title), "bold"), "\n")
    cause, hint = (result.error.message, result.error.hint) if result.error else ("", "")
    lines = result.tail
    if (message := f"error: {cause}") in lines:  # the command's own, which is shown as the cause
        lines = lines[: lines.index(message)]
    for line in lines:
        text.append("  | ", style="dim").append(f"{shown(line)}\n")
    parts = {"why": shown(cause), "log": shown(str(result.log or "")), "kept": shown(str(result.kept or ""))}
    if result.kept and action.cells:
        parts["open"] = f"gpuforge shell {action.cells[0]}, with the options of this build"
    for name, value in (parts | {"hint": shown_lines(hint)}).items():
        if value:
            text.append(f"  {name + ':':6}", style="bold").append(f"{value}\n")
    text.right_crop(1)
    return text


def print_text(console: Console, text: Text) -> None:
    """Print a text without wrapping its lines, so that paths and commands in it can be copied."""
    console.print(text, soft_wrap=True)


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


class _Display:
    """What both displays know of a run; another thread draws, or speaks up in a long silence."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._begin = clock()
        self._guard = threading.Lock()
        self._plan = PlanProgress(())


class LiveProgress(_Display):
    """A display that is redrawn several times a second; failures are printed above it."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        super().__init__(console, clock)
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

        def watch() -> None:
            while not over.wait(_QUIET / 4):
                plain.beat()

        beat = threading.Thread(target=watch, daemon=True)
        beat.start()
        try:
            yield plain
        finally:
            over.set()
            beat.join()


class PlainProgress(_Display):
    """One line for each start and each end, with the time since the beginning: for logs and CI."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        super().__init__(console, clock)
        self._last = self._begin  # the time of the last line
        self._to_run: frozenset[str] = frozenset()
        self._skipped: dict[str, list[Action]] = {}  # reason -> the actions, until another line is printed

    def beat(self) -> None:
        """Print what runs if nothing was printed for a while: CI systems stop jobs that are silent."""
        with self._guard:
            now = self._clock()
            running = [*self._plan.running.values()]
            if now - self._last < _QUIET or not running:
                return
            for each in running:
                line = last_line(each.log)
                output = f": {line}" if line else ""
                took = short_seconds(now - each.since)
                self._line("runs", f"{where(each.action)}{each.action.title} ({took} so far){output}")

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
            with self._guard:
                self._line("waits", f"{where(action)}{action.title}: {what}")

    def on_interrupt(self) -> None:
        """Print that the running commands are being stopped, and what is removed."""
        with self._guard:
            self._line(
                "stop", f"interrupted: {stopping(len(self._plan.running))} (once more to stop by force)"
            )

    def on_finish(self, action: Action, result: ActionResult) -> None:
        """Print how an action ended, unless it did not have to run."""
        with self._guard:
            self._plan.finish(action, result, self._clock())
            if action.id not in self._to_run:
                return
            if result.state == "not-run":
                self._skipped.setdefault(why(result.reason), []).append(action)
            else:
                self._line(result.state, f"{where(action)}{action.title} ({short_seconds(result.seconds)})")
            if result.state == "failed":
                print_text(self._console, failure(action, result))
            if len(self._plan.ended) == self._plan.total:
                self._line("end", self._plan.counts())

    def _line(self, what: str, text: str) -> None:
        skipped, self._skipped = self._skipped, {}
        for reason, (first, *others) in skipped.items():
            more = f" and {len(others)} more" if others else ""
            self._line("skipped", f"{where(first)}{first.title}{more}: {reason}")
        self._last = self._clock()
        print_text(self._console, Text(f"[{self._clock() - self._begin:7.1f} s] {what:9} {shown(text)}"))
