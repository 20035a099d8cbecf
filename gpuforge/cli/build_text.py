"""Prints the plan and the result of `gpuforge build` for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from gpuforge.cli import cache_report
from gpuforge.cli.action_reason import why, words
from gpuforge.cli.build_json import plan_data
from gpuforge.cli.build_result import RAN, BuiltWheel, Result, is_done
from gpuforge.cli.console import count, results_console
from gpuforge.cli.left_out import by_reason
from gpuforge.cli.wheel_text import show_wheel
from gpuforge.diagnostics import shown
from gpuforge.execute.times import short_seconds
from gpuforge.execute.verdict import Verdict
from gpuforge.plan.cell import Selection
from gpuforge.plan.lower.cell_actions import Plan

_TOGETHER = "kept back with the others, as a package and its kernels wheels require each other"


def show_plan(
    plan: Plan, selection: Selection, verdicts: Mapping[str, Verdict], *, explain: bool, as_json: bool
) -> None:
    """Print the actions that would run, and why."""
    if as_json:
        reasons = {name: (verdict.run, verdict.reason) for name, verdict in verdicts.items()}
        click.echo(json.dumps(plan_data(plan, selection, reasons), indent=2))
        return
    console = results_console()
    console.print(Text(count(len(plan.cells), "cell"), style="bold"))
    for cell in plan.cells:
        python = "every Python 3" if cell.python == "3" else f"Python {cell.python}"
        at = plan.machine.at(cell)
        toolkit, (_, host) = at.toolkits.get(cell.cuda), plan.machine.host_at(cell)
        cuda = f"CUDA {cell.toolkit} by {toolkit.provider} (nvcc {toolkit.nvcc})" if toolkit else "no CUDA"
        where = f", in {at.image.name}" if at.image else ""
        values = "".join(f", {name} {value}" for name, value in cell.axes)
        text = f"{cell.id}: {python}, {cuda}{values}, {host.family} {host.version}{where}"
        console.print(Text(f"  {shown(text)}"))
    runs = [name for name, verdict in verdicts.items() if verdict.run]
    console.print()
    console.print(Text(f"{count(len(plan.actions), 'action')}, {len(runs)} to run", style="bold"))
    for action in plan.actions:
        verdict = verdicts[action.id]
        mark = Text("run      ", style="yellow") if verdict.run else Text("reuse    ", style="green")
        if not verdict.run and verdict.stored is None:
            mark = Text("unneeded ", style="dim")
        console.print(Text("  ") + mark + Text(shown(action.title)))
        if explain:
            console.print(Text(f"           {shown(why(verdict.reason))}", style="dim"))
    _show_left_out(console, selection)


def show_result(result: Result, *, images: Sequence[str], explain: bool) -> None:
    """Print the wheels and their proofs, then the cells without a wheel, and why."""
    console = results_console()
    if explain:
        for action in result.plan.actions:
            console.print(Text(shown(action.title)))
            console.print(Text(f"  {shown(words(result.outcome.results[action.id].reason))}", style="dim"))
        console.print()
    wheels: dict[Path, list[BuiltWheel]] = {}
    for wheel in result.wheels:
        wheels.setdefault(wheel.path, []).append(wheel)
    for same in wheels.values():
        show_wheel(console, same, images)
    _show_left_out(console, result.selection)
    _show_missing(result)
    ran = [r for r in result.outcome.results.values() if r.state in RAN]
    what = (
        f"{count(len(ran), 'action')} ran" if ran else "nothing to do: every action's inputs are as they were"
    )
    for line in cache_report.total(filter(None, map(cache_report.use_of, ran))):
        console.print(Text(f"compiler cache: {line}", style="dim"))
    plan = result.plan
    of = count(len({*plan.wheels.values(), *plan.kernels.values(), *(plan.front or ())[:1]}), "wheel")
    console.print(f"{len(wheels)} of {of}, {what} ({short_seconds(result.seconds)})")
    if not ran and not explain:
        console.print(Text("  --explain shows the reason for each action", style="dim"))


def _show_missing(result: Result) -> None:
    """Print the cells without a wheel, and those whose wheel is kept back because of its test."""
    plan, outcome = result.plan, result.outcome
    missing: dict[str, list[str]] = {}
    put = {wheel.cell for wheel in result.wheels}
    for cell in (c.id for c in plan.cells):
        untested = not all(is_done(outcome, test.action) for test in plan.tests.get(cell, ()))
        report = plan.reports[cell].action
        waits = untested and outcome.results[report].state == "not-run"  # for the packages of its test
        if outcome.results[report].state == "failed":
            missing.setdefault("kept back, as its audit did not pass", []).append(cell)
        elif not is_done(outcome, plan.wheels[cell].action) or not (is_done(outcome, report) or waits):
            missing.setdefault("not built", []).append(cell)
        elif untested:
            missing.setdefault("kept back, as its test did not pass", []).append(cell)
        elif plan.kernels and cell not in put:
            missing.setdefault(_TOGETHER, []).append(cell)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for what, cells in missing.items():
        console.print(Text(shown(f"{what}: {', '.join(cells)}"), style="bold red"))
    for action in plan.actions:
        if (failed := outcome.results[action.id]).state == "failed" and failed.error:
            console.print(Text(shown(f"  {action.title}: {failed.error.message}")))
    for each in result.set_aside:
        moved = f"the older {shown(each.path.name)} is now in {shown(str(each.to.parent))}/"
        console.print(Text(f"{moved}, so that nobody publishes it by mistake"))


def _show_left_out(console: Console, selection: Selection) -> None:
    for reason, cells in by_reason(selection.missing).items():
        console.print(Text(shown(f"left out: {', '.join(cells)}: {reason}"), style="yellow"))
