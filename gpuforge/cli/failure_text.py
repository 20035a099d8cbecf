"""A failed action for people: what it was, its last lines, the cause, the log, the next step."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from gpuforge.diagnostics import shown, shown_lines
from gpuforge.execute.outcome import ActionResult
from gpuforge.plan.action import Action


def failure(action: Action, result: ActionResult) -> Text:
    """Return what to say of a failed action: what it was, its last lines, the cause, the log, the next step.

    Names of files and a build's output are in it: nothing of them steers a terminal or a CI system.
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
    """Return the last lines without the command's own `error: …`, which is told as the cause."""
    message = f"error: {result.error.message}" if result.error else ""
    return result.tail[: result.tail.index(message)] if message in result.tail else result.tail


def print_text(console: Console, text: Text) -> None:
    """Print a text whose lines are never wrapped: paths and commands in it can be copied."""
    console.print(text, soft_wrap=True)
