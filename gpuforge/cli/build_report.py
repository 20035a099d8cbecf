"""What `gpuforge build` shows: the plan before, the result after; for people and as JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuforge.cli import cache_report
from gpuforge.execute.outcome import Outcome
from gpuforge.execute.times import short_seconds
from gpuforge.execute.verdict import Verdict
from gpuforge.manifest.sizes import size_in_words
from gpuforge.plan.cell import Cell, Selection
from gpuforge.plan.lower.cell_actions import Plan
from gpuforge.plan.site import Machine

RAN = frozenset({"done", "failed", "cancelled"})  # states of an action that was started


@dataclass(frozen=True, slots=True)
class Wheel:
    """A finished wheel in the output folder.

    `size` in bytes, `report` the audit's JSON report, `test` what its test says of itself, None without one.
    """

    cell: str
    path: Path
    sha256: str
    size: int
    report: Mapping[str, Any]
    test: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SetAside:
    """An older wheel of a cell, moved out of the output folder as the newer one is kept back."""

    cell: str
    path: Path
    to: Path


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that one `gpuforge build` did; `seconds` from the call to the end."""

    plan: Plan
    selection: Selection
    outcome: Outcome
    wheels: list[Wheel]
    seconds: float
    set_aside: Sequence[SetAside] = ()


def is_done(outcome: Outcome, action: str) -> bool:
    """Say whether an action's output is there."""
    return outcome.results[action].state in {"done", "reused"}


def show_plan(
    plan: Plan, selection: Selection, verdicts: Mapping[str, Verdict], *, explain: bool, as_json: bool
) -> None:
    """Print what would be done, and why."""
    if as_json:
        said = {name: (verdict.run, verdict.reason) for name, verdict in verdicts.items()}
        click.echo(json.dumps(plan_data(plan, selection, said), indent=2))
        return
    console = results_console()
    console.print(Text(count(len(plan.cells), "cell"), style="bold"))
    for cell in plan.cells:
        python = "every Python 3" if cell.python == "3" else f"Python {cell.python}"
        at = plan.machine.at(cell)
        toolkit, (_, host) = at.toolkits[cell.cuda], plan.machine.host_at(cell)
        where = f", in {at.image.name}" if at.image else ""
        console.print(
            f"  {cell.id}: {python}, CUDA {cell.toolkit} by {toolkit.provider} (nvcc {toolkit.nvcc}), "
            f"{host.family} {host.version}{where}"
        )
    runs = [name for name, verdict in verdicts.items() if verdict.run]
    console.print()
    console.print(Text(f"{count(len(plan.actions), 'action')}, {len(runs)} to run", style="bold"))
    for action in plan.actions:
        verdict = verdicts[action.id]
        mark = Text("run    ", style="yellow") if verdict.run else Text("reuse  ", style="green")
        if not verdict.run and verdict.stored is None:
            mark = Text("skip   ", style="dim")
        console.print(Text("  ") + mark + Text(action.title))
        if explain:
            console.print(Text(f"           {verdict.reason}", style="dim"))
    _show_left_out(console, selection)


def plan_data(plan: Plan, selection: Selection, said: Mapping[str, tuple[bool, str]]) -> dict[str, Any]:
    """Return the plan as plain data (schema 1); `said` gives for each action whether it runs, and why."""
    return {
        "schema": 1,
        "cells": [_cell_data(cell, plan.machine) for cell in plan.cells],
        "left_out": [{"cell": item.cell.id, "reason": item.reason} for item in selection.left_out],
        "actions": [
            {
                "id": action.id,
                "kind": action.kind,
                "title": action.title,
                "cells": list(action.cells),
                "needs": list(action.needs),
                "run": said[action.id][0],
                "reason": said[action.id][1],
            }
            for action in plan.actions
        ],
    }


def _cell_data(cell: Cell, machine: Machine) -> dict[str, Any]:
    at, (_, host) = machine.at(cell), machine.host_at(cell)
    toolkit = at.toolkits[cell.cuda]
    return {
        "id": cell.id,
        "python": cell.python,
        "cuda": cell.cuda,
        "toolkit": cell.toolkit,
        "provider": toolkit.provider,
        "nvcc": toolkit.nvcc,
        "host": f"{host.family} {host.version}",
        "machine": cell.machine,
        "image": {"name": at.image.name, "id": at.image.id} if at.image else None,
    }


def result_data(result: Result) -> dict[str, Any]:
    """Return what was done as plain data (schema 1): the plan with states, and the wheels with their reports."""
    results = result.outcome.results
    said = {name: (each.state in RAN, each.reason) for name, each in results.items()}
    data = plan_data(result.plan, result.selection, said)
    for entry in data["actions"]:
        done = results[entry["id"]]
        entry |= {
            "state": done.state,
            "seconds": round(done.seconds, 3),
            "log": str(done.log) if done.log else None,
        }
        if use := cache_report.use_of(done):
            entry["compiler_cache"] = cache_report.as_data(use)
        if done.error:
            entry["error"] = str(done.error)
    wheels = [
        {
            "cell": w.cell,
            "path": str(w.path),
            "sha256": w.sha256,
            "size": w.size,
            "findings": w.report["findings"],
        }
        for w in result.wheels
    ]
    return data | {
        "wheels": wheels,
        "tests": list(_tests(result)),
        "set_aside": [
            {"cell": each.cell, "path": str(each.path), "to": str(each.to)} for each in result.set_aside
        ],
        "seconds": round(result.seconds, 3),
        "interrupted": result.outcome.interrupted,
    }


def _tests(result: Result) -> Iterator[dict[str, Any]]:
    """Yield how the test of each cell ended: `passed`, `failed` or `not-run`, with what it says of itself."""
    said = {wheel.cell: wheel.test for wheel in result.wheels}
    for cell, end in result.plan.tests.items():
        ended = result.outcome.results[end.action]
        state = "passed" if is_done(result.outcome, end.action) else ended.state
        yield {"cell": cell, "state": "not-run" if state == "cancelled" else state} | {
            key: value for key, value in (said.get(cell) or {}).items() if key not in {"schema", "cell"}
        }


def show_result(result: Result, *, images: Sequence[str], explain: bool) -> None:
    """Print the wheels and what was proved of each; then the cells that have none, and why."""
    console = results_console()
    if explain:
        for action in result.plan.actions:
            console.print(Text(action.title))
            console.print(Text(f"  {result.outcome.results[action.id].reason}", style="dim"))
        console.print()
    wheels: dict[Path, list[Wheel]] = {}
    for wheel in result.wheels:
        wheels.setdefault(wheel.path, []).append(wheel)
    for same in wheels.values():
        _show_wheel(console, same, images)
    _show_left_out(console, result.selection)
    _show_missing(result)
    ran = [r for r in result.outcome.results.values() if r.state in RAN]
    what = (
        f"{count(len(ran), 'action')} ran" if ran else "nothing to do: every action's inputs are as they were"
    )
    for line in cache_report.total(filter(None, map(cache_report.use_of, ran))):
        console.print(Text(f"compiler cache: {line}", style="dim"))
    of = count(len({*result.plan.wheels.values(), *result.plan.kernels.values()}), "wheel")
    console.print(f"{len(wheels)} of {of}, {what} ({short_seconds(result.seconds)})")
    if not ran and not explain:
        console.print(Text("  --explain says for each action why", style="dim"))


def _show_missing(result: Result) -> None:
    """Say which cells have no wheel, and which have one that is kept back because of its test."""
    plan, outcome = result.plan, result.outcome
    missing: dict[str, list[str]] = {}
    put = {wheel.cell for wheel in result.wheels}
    for cell in (c.id for c in plan.cells):
        untested = cell in plan.tests and not is_done(outcome, plan.tests[cell].action)
        report = plan.reports[cell].action
        waits = untested and outcome.results[report].state == "not-run"  # for what the test installs
        if not is_done(outcome, plan.wheels[cell].action) or not (is_done(outcome, report) or waits):
            missing.setdefault("not built", []).append(cell)
        elif untested:
            missing.setdefault("kept back, as its test did not pass", []).append(cell)
        elif plan.kernels and cell not in put:
            missing.setdefault(_TOGETHER, []).append(cell)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for what, cells in missing.items():
        console.print(f"{what}: {', '.join(cells)}", style="bold red")
    for each in result.set_aside:
        console.print(f"set aside, as it is older than what was kept back: {each.path} is now {each.to}")


_TOGETHER = "kept back with the others, as a package and its kernels wheels require each other"


def _show_wheel(console: Console, wheels: Sequence[Wheel], images: Sequence[str]) -> None:
    """Print one wheel, with the tests of all cells that it is of."""
    wheel = wheels[0]
    console.print(Text(str(wheel.path), style="bold"))
    console.print(Text(f"  {size_in_words(wheel.size)}"))
    console.print(Text(f"  sha256 {wheel.sha256}"))
    lines = Table.grid(padding=(0, 1))
    lines.add_column(no_wrap=True)
    lines.add_column()
    for line in wheel.report.get("proved", []):
        lines.add_row(Text("  ✓", style="green"), Text(line))
    for test in (each.test for each in wheels if each.test):
        for line in words_of_test(test):
            lines.add_row(Text("  ✓", style="green"), Text(line))
        for line in gaps_of_test(test):
            lines.add_row(Text("  !", style="yellow"), Text(line))
    for finding in wheel.report["findings"]:
        said = f"{finding['severity']} {finding['code']}: {finding['message']}"
        lines.add_row(Text("  !", style="yellow"), Text(said))
    newer = newer_platform(wheel.path.name, images)
    if newer:
        lines.add_row(Text("  !", style="yellow"), Text(newer))
    if console.is_terminal:
        console.print(lines)  # wraps with a hanging indent
    else:
        for mark, text in zip(*(column.cells for column in lines.columns), strict=True):
            console.print(mark, text)


def words_of_test(test: Mapping[str, Any]) -> Iterator[str]:
    """Yield in words what of a test went well: each way of installing the wheel, its CUDA libraries, its command."""
    several = len(test.get("installs", ())) > 1
    for install in test.get("installs", (test,)):
        if "lacks" not in install:
            how = f" {_title(install)}" if several else ""
            yield (
                f"test: installed{how} on Python {install['python']}{_brought(install, named=several)}, "
                f"`import {install['import']}` works without a GPU ({short_seconds(install['import_seconds'])})"
            )
    if "cuda" in test:
        yield f"test: {_cuda_words(test['cuda'])}"
    if "command" in test:
        passed = test["summary"].rpartition(" in ")[0] or "passed"
        yield f"test: {test['command_line']}: {passed} ({short_seconds(test['seconds'])})"


def gaps_of_test(test: Mapping[str, Any]) -> Iterator[str]:
    """Yield in words which installation works only where the machine, or an extra, has CUDA's libraries."""
    for install in test.get("installs", ()):
        if "lacks" in install:
            yield (
                f"test: installed {_title(install)}{_brought(install, named=True)}, `import {install['import']}` lacks "
                f"{install['lacks']}: it works with {_title(test)}, or where the machine has CUDA"
            )


def _title(install: Mapping[str, Any]) -> str:
    """Name a way of installing: "[cuda13,plots]", or "bare"."""
    return f"[{','.join(install['extras'])}]" if install["extras"] else "bare"


def _brought(install: Mapping[str, Any], *, named: bool) -> str:
    """Say how many packages came beside the wheel, or which."""
    own = install["wheel"].split("-")[0].lower() if named else ""
    packages = [each for each in install["packages"] if each.partition(" ")[0].lower() != own]
    if named:
        more = f" and {len(packages) - _NAMED} more" if len(packages) > _NAMED else ""
        return f" with {', '.join(packages[:_NAMED])}{more}" if packages else " with nothing else"
    number = len(install["packages"]) - 1
    return f" with {count(number, 'package')} that it declares" if number else ""


_NAMED = 8  # packages that are named in one line
_MACHINE = {
    "none": "this machine has no other",
    "hidden": "that of this machine was hidden",
    "visible": "none of this machine's was used",
}


def _cuda_words(cuda: Mapping[str, Any]) -> str:
    """Say where the CUDA libraries of a test came from, and what it saw of this machine's."""
    places: dict[str, list[str]] = {}
    for each in cuda["loaded"]:
        places.setdefault(each["from"], []).append(each["library"])
    said = [f"{', '.join(names)} from the {place}" for place, names in places.items()]
    return f"CUDA libraries loaded: {'; '.join(said) or 'none'}; {_MACHINE[cuda['machine']]}"


def newer_platform(wheel: str, images: Sequence[str]) -> str:
    """Return what to say of a wheel that needs a newer glibc than the manylinux policy among `images`; else ""."""
    image = next((name for name in images if name.startswith("manylinux")), "")
    promised = re.fullmatch(r"manylinux_(\d+)_(\d+)(_\w+)?", image)
    found = [(int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)_", wheel)]
    if not promised or not found or min(found) <= (int(promised[1]), int(promised[2])):
        return ""
    needs = ".".join(map(str, min(found)))
    return f"needs glibc {needs}, newer than {image} of [wheel] image: it was built against this machine's libraries"


def count(number: int, what: str) -> str:
    """Write a number of things: `1 cell`, `2 cells`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _show_left_out(console: Console, selection: Selection) -> None:
    reasons: dict[str, list[str]] = {}
    for item in selection.left_out:
        if not item.reason.startswith("not selected"):
            reasons.setdefault(item.reason, []).append(item.cell.id)
    for reason, cells in reasons.items():
        console.print(Text(f"left out: {', '.join(cells)}: {reason}", style="yellow"))


def results_console() -> Console:
    """Return a console that wraps for a terminal, and not for a pipe, where others look for whole lines."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 10_000)
