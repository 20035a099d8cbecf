"""A failed action for people: its title, its last lines, the cause, the log, the next step."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from gpuforge.diagnostics import shown, shown_lines
from gpuforge.execute.outcome import ActionResult
from gpuforge.plan.action import Action


def failure(action: Action, result: ActionResult) -> Text:
    """Return the text about a failed action: its title, its last lines, the cause, the log, the next step.

    Control characters in names of files and in a build's output are escaped for terminals and CI systems.
    """
    text = Text.assemble(("failed: ", "bold red"), (shown(action.title), "bold"), "\n")
    for line in _before_message(result):
        text.append("  | ", style="dim").append(f"{shown(line)}\n")
    if result.error:
        text.append("  why:  ", style="bold").append(f"{shown(result.error.message)}\n")
    if result.log:
        text.append("  log:  ", style="bold").append(f"{shown(str(result.log))}\n")
    if result.kept:
        text.append("  kept: ", style="bold").append(f"{shown(str(result.kept))}\n")
    if result.error and result.error.hint:
        text.append("  hint: ", style="bold").append(f"{shown_lines(result.error.hint)}\n")
    text.right_crop(1)
    return text


def _before_message(result: ActionResult) -> tuple[str, ...]:
    """Return the last lines without the command's own `error: …`, which is shown as the cause."""
    message = f"error: {result.error.message}" if result.error else ""
    return result.tail[: result.tail.index(message)] if message in result.tail else result.tail


def print_text(console: Console, text: Text) -> None:
    """Print a text without wrapping its lines, so that paths and commands in it can be copied."""
    console.print(text, soft_wrap=True)
