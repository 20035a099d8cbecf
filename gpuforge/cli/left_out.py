"""Writes why cells of the matrix are not built, and decides what that means for the exit status."""

from __future__ import annotations

from collections.abc import Iterable

import click

from gpuforge.cli.terminal import say
from gpuforge.errors import MissingError
from gpuforge.plan.cell import LeftOut, LeftOutReason, Selection

allow_missing = click.option(
    "--allow-missing",
    is_flag=True,
    help="Leave out what this machine or its images cannot build, without exit status 3.",
)


def reason_text(reason: LeftOutReason) -> str:
    """Return the reason in one line."""
    facts = reason.facts
    if reason.kind == "missing":
        return "; ".join(facts["problems"])
    text = f"not selected by {facts['option'][0]} {','.join(facts['values'])}"
    return f"{text}: [cuda.{facts['cuda'][0]}] has {', '.join(facts['archs'])}" if "archs" in facts else text


def as_data(left_out: Iterable[LeftOut]) -> list[dict[str, str]]:
    """Return each omitted cell with the reason, as plain data."""
    return [
        {"cell": item.cell.id, "kind": item.reason.kind, "reason": reason_text(item.reason)}
        for item in left_out
    ]


def by_reason(left_out: Iterable[LeftOut]) -> dict[str, list[str]]:
    """Return the ids of the cells by the reason."""
    reasons: dict[str, list[str]] = {}
    for item in left_out:
        reasons.setdefault(reason_text(item.reason), []).append(item.cell.id)
    return reasons


def status(selection: Selection, *, allowed: bool) -> int:
    """Return 3 if cells are missing that were not allowed to be, and print what to do; else 0."""
    missing = selection.missing
    if allowed or not missing:
        return 0
    for hint in dict.fromkeys(hint for item in missing for hint in item.reason.facts["hints"]):
        say(f"hint: {hint}")
    cells = "1 cell is" if len(missing) == 1 else f"{len(missing)} cells are"
    say(f"{cells} left out, so the exit status is {MissingError.exit_code}; --allow-missing makes it 0")
    return MissingError.exit_code
