"""The plan and the result of `gpuforge build`, as text for people and as plain data (schema 1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from packaging.utils import canonicalize_name

from gpuforge.actions.cell_actions import Plan
from gpuforge.cli.dist import RAN, BuiltWheel, Result, is_done
from gpuforge.cli.planning import left_out_by_reason, left_out_data
from gpuforge.cli.terminal import count, line, say
from gpuforge.diagnostics import shortened, shown
from gpuforge.execute.outcome import ActionReason, ActionResult, Change
from gpuforge.execute.times import local_time, short_seconds
from gpuforge.execute.verdict import Verdict
from gpuforge.grouping import grouped
from gpuforge.manifest.sizes import size_in_words
from gpuforge.plan.cell import Cell, Selection
from gpuforge.plan.site import Machine
from gpuforge.toolchains.sccache import CacheUse
from gpuforge.wheel import filename
from gpuforge.wheel.filename import LinuxTag, claims

if TYPE_CHECKING:
    from gpuforge.actions.trial_result import Cuda, Install, State, TrialResult

_LONGEST = 40  # characters of a value that is still shown: no digest has so few
_MOST = 3  # changes in one line
_VERBS = {
    "stored": "reused",
    "same-content": "reused",
    "not-needed": "not needed",
    "blocked": "not run",
    "useless": "not run",
    "interrupted": "not run",
    "not-started": "not run",
}
_SENTENCES: Mapping[str, Callable[[ActionReason], str]] = {
    "first": lambda _: "never ran before",
    "upstream": lambda reason: f"needs {shortened(reason.actions, 1)}, which will run",
    "failed-before": lambda reason: f"failed on {local_time(reason.time)}",
    "output-gone": lambda reason: f"its output of {local_time(reason.time)} is no longer stored",
    "output-damaged": lambda reason: f"its stored output is damaged ({reason.problem})",
    "changed": lambda reason: _changes(reason.changes),
    "changed-otherwise": lambda _: "its inputs, command or environment changed",
    "stored": lambda reason: (
        f"same inputs as on {local_time(reason.time)} ({short_seconds(reason.seconds)} saved)"
    ),
    "same-content": lambda _: "its inputs were made again, with the same content",
    "not-needed": lambda _: "everything that needs it is stored",
    "blocked": lambda reason: f"needs {reason.actions[0]}, which {_ended(reason)}",
    "useless": lambda reason: f"no longer needed, as {reason.actions[0]} {_ended(reason)}",
    "interrupted": lambda _: "interrupted",
    "not-started": lambda _: "interrupted before it started",
}


def words(reason: ActionReason) -> str:
    """Return whether an action runs, and why: "runs: never ran before"."""
    return f"{_VERBS.get(reason.kind, 'runs')}: {why(reason)}"


def why(reason: ActionReason) -> str:
    """Return only the reason: "never ran before"."""
    return _SENTENCES[reason.kind](reason)


def _ended(reason: ActionReason) -> str:
    return "failed" if reason.state == "failed" else "was cancelled"


def _changes(changes: Sequence[Change]) -> str:
    listed = [_one_change(each) for each in changes[:_MOST]]
    more = len(changes) - len(listed)
    return "; ".join([*listed, f"and {more} more"] if more else listed)


def _one_change(change: Change) -> str:
    fact, old, new = change.fact, change.old, change.new
    name = fact.label if fact.kind == "env" else fact.name
    if old is None:
        return f"{name} is new"
    if new is None:
        return f"{name} is gone"
    if any(len(value) > _LONGEST or "\n" in value for value in (old, new)):
        return f"{name} changed"
    return f"{name} {old or 'nothing'} → {new or 'nothing'}"


def cache_use(result: ActionResult) -> CacheUse | None:
    """Return an action's use of the compiler cache; None if it does not use it.

    The project's build may have written it, too: numbers and texts of another kind are ignored.
    """
    match result.counts.get("compiler_cache"):
        case {"hits": int(hits), "steps": int() | None as steps, "notes": [*notes]}:
            return CacheUse(hits, steps, tuple(map(str, notes)))
    return None


def notes(result: ActionResult) -> Iterator[str]:
    """Yield what a build reported about the machine that it ran on; the project's build may have written it, too."""
    match result.counts.get("notes"):
        case [*found]:
            yield from (note for note in found if isinstance(note, str))


def cache_totals(uses: Iterable[CacheUse]) -> list[str]:
    """Return the cache use of several builds in few lines: the sum of their hits, and each note once."""
    found = list(uses)
    counted = [use for use in found if use.steps is not None]
    hits = CacheUse(sum(use.hits for use in counted), sum(use.steps or 0 for use in counted))
    notes = dict.fromkeys(str(CacheUse(notes=use.notes)) for use in found if use.notes)
    return [*([str(hits)] if hits.steps else []), *notes]


def cache_data(use: CacheUse) -> dict[str, int | str]:
    """Return it as plain data: `hits` and `steps` if the cache was used, and both as a text."""
    counts = {"hits": use.hits, "steps": use.steps} if use.steps is not None else {}
    return counts | {"text": str(use)}


def words_of_test(test: TrialResult, *, gpu: bool = False, named: bool = False) -> Iterator[str]:
    """Yield a line for each success: each way of installing the wheel, its CUDA libraries, its command.

    With `gpu` the test saw the machine's GPUs, so it does not show that the import works without. `named`: the packages
    that were installed are named, not counted.
    """
    several = len(test.installs) > 1
    for install in test.installs:
        if not install.lacks:
            how = f" {_title(install)}" if several else ""
            works = f"works{'' if gpu else ' without a GPU'} ({short_seconds(install.import_seconds or 0)})"
            yield (
                f"test: installed{how} on Python {install.python}{_brought(install, named=named or several)}, "
                f"`import {install.imported}` {works}"
            )
    if cuda := test.installs[-1].cuda:
        yield f"test: {_cuda_words(cuda)}"
    if ran := test.ran:
        yield f"test: {ran.command_line}: {ran.outcome or 'passed'} ({short_seconds(ran.seconds)})"


def gaps_of_test(test: TrialResult) -> Iterator[str]:
    """Yield a line for each installation that works only if the machine, or an extra, has CUDA's libraries."""
    for install in test.installs:
        if install.lacks:
            yield (
                f"test: installed {_title(install)}{_brought(install, named=True)}, `import {install.imported}` lacks "
                f"{install.lacks}: it works with {_title(test.installs[-1])}, or where the machine has CUDA"
            )


def _title(install: Install) -> str:
    """Name a way of installing: "[cuda13,plots]", or "bare"."""
    return f"[{','.join(install.extras)}]" if install.extras else "bare"


def _brought(install: Install, *, named: bool) -> str:
    """Return the number of packages that were installed with the wheel, or their names."""
    own = filename.project(install.wheel) if named else ""
    packages = [each for each in install.packages if canonicalize_name(each.project) != own]
    if named:
        return f" with {shortened(packages, _NAMED)}" if packages else " with nothing else"
    number = len(install.packages) - 1
    return f" with {count(number, 'package')} that it declares" if number else ""


_NAMED = 8  # packages that are named in one line
_MACHINE: dict[State, str] = {
    "none": "this machine has no CUDA of its own",
    "hidden": "this machine's CUDA was hidden",
    "visible": "this machine's CUDA was not used",
}


def _cuda_words(cuda: Cuda) -> str:
    """Return the origin of a test's CUDA libraries, and whether those of this machine were visible."""
    places = grouped((each.place, each.library) for each in cuda.loaded)
    found = [f"{', '.join(names)} from the {place}" for place, names in places.items()]
    return f"CUDA libraries loaded: {'; '.join(found) or 'none'}; {_MACHINE[cuda.machine]}"


def plan_data(
    plan: Plan, selection: Selection, reasons: Mapping[str, tuple[bool, ActionReason]]
) -> dict[str, Any]:
    """Return the plan as plain data (schema 1); `reasons` has for each action whether it runs, and why."""
    return {
        "schema": 1,
        "cells": [_cell_data(cell, plan.machine) for cell in plan.cells],
        "left_out": left_out_data(selection.left_out),
        "actions": [
            {
                "id": action.id,
                "kind": action.kind,
                "title": action.title,
                "cells": list(action.cells),
                "needs": list(action.needs),
                "run": reasons[action.id][0],
                "reason": words(reasons[action.id][1]),
            }
            for action in plan.actions
        ],
    }


def _cell_data(cell: Cell, machine: Machine) -> dict[str, Any]:
    at, (_, host) = machine.at(cell), machine.host_at(cell)
    toolkit = at.toolkits.get(cell.cuda)
    return {
        "id": cell.id,
        "python": cell.python,
        "cuda": cell.cuda or None,
        "toolkit": cell.toolkit or None,
        **({"axes": dict(cell.axes)} if cell.axes else {}),
        "provider": toolkit.provider if toolkit else None,
        "nvcc": toolkit.nvcc if toolkit else None,
        "host": f"{host.family} {host.version}",
        "machine": cell.machine,
        "image": {"name": at.image.name, "id": at.image.id} if at.image else None,
    }


def result_data(result: Result) -> dict[str, Any]:
    """Return the result as plain data (schema 1): the plan with states, and the wheels with their reports."""
    results = result.outcome.results
    reasons = {name: (each.state in RAN, each.reason) for name, each in results.items()}
    data = plan_data(result.plan, result.selection, reasons)
    for entry in data["actions"]:
        done = results[entry["id"]]
        entry |= {
            "state": done.state,
            "seconds": round(done.seconds, 3),
            "log": str(done.log) if done.log else None,
        }
        if done.kept:
            entry["kept"] = str(done.kept)
        if use := cache_use(done):
            entry["compiler_cache"] = cache_data(use)
        if found := [*notes(done)]:
            entry["notes"] = found
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
    """Yield the result of each test, `passed`, `failed` or `not-run`, with the test's report."""
    tests = {wheel.cell: wheel.tests for wheel in result.wheels if wheel.tests}
    points = {cell.id: cell.points for cell in result.plan.cells}
    for cell, ends in result.plan.tests.items():
        reports = tests.get(cell, (None,) * len(ends))
        for point, end, report in zip(points[cell], ends, reports, strict=True):
            ended = result.outcome.results[end.action]
            state = "passed" if is_done(result.outcome, end.action) else ended.state
            yield {
                "cell": cell,
                **({"axes": dict(point.values)} if point.values else {}),
                "state": "not-run" if state == "cancelled" else state,
                **(trial_data(report) if report else {}),
            }


def trial_data(test: TrialResult) -> dict[str, Any]:
    """Return the result of a test: the installation that its command ran with, all installations, and the command."""
    data = test.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"ran": {"outcome"}})
    for part in (data, *data["installs"]):
        part |= {
            key: [" ".join(release) for release in part[key]]
            for key in ("packages", "tested_with")
            if key in part
        }
    ran = data.pop("ran", {})
    return {**data["installs"][-1], **data, **ran}


def show_wheel(wheels: Sequence[BuiltWheel], images: Sequence[str], *, gpu: bool) -> None:
    """Print one wheel with the tests of all its cells; `gpu`: they saw the machine's GPUs."""
    wheel = wheels[0]
    line(str(wheel.path), bold=True)
    line(f"  {size_in_words(wheel.size)}")
    line(f"  sha256 {wheel.sha256}")
    for proved in wheel.report.get("proved", []):
        _good(proved)
    for test in (test for each in wheels for test in each.tests):
        for text in words_of_test(test, gpu=gpu):
            _good(text)
        for text in gaps_of_test(test):
            _warning(text)
    for finding in wheel.report["findings"]:
        _warning(f"{finding['severity']} {finding['code']}: {finding['message']}")
    if newer := newer_platform(wheel.path.name, images):
        _warning(newer)


def _good(text: str) -> None:
    line(text, mark="  ✓ ", fg="green")


def _warning(text: str) -> None:
    line(text, mark="  ! ", fg="yellow")


def newer_platform(wheel: str, images: Sequence[str]) -> str:
    """Return a warning for a wheel that needs a newer glibc than the manylinux policy among `images`; else ""."""
    promised = ((found.floor, image) for image in images if (found := LinuxTag.parse(image)) and found.libc)
    floor, image = next(promised, (None, ""))
    tags = map(LinuxTag.parse, (tag.platform for tag in claims(wheel).tags))
    needs = min((tag.floor for tag in tags if tag and tag.libc), default=None)
    if not floor or not needs or needs <= floor:
        return ""
    glibc = ".".join(map(str, needs))
    return f"needs glibc {glibc}, newer than {image} of [wheel] image: it was built against this machine's libraries"


_TOGETHER = "kept back with the others, as a package and its kernels wheels require each other"


def show_plan(
    plan: Plan, selection: Selection, verdicts: Mapping[str, Verdict], *, explain: bool, as_json: bool
) -> None:
    """Print the actions that would run, and why."""
    if as_json:
        reasons = {name: (verdict.run, verdict.reason) for name, verdict in verdicts.items()}
        click.echo(json.dumps(plan_data(plan, selection, reasons), indent=2))
        return
    line(count(len(plan.cells), "cell"), bold=True)
    for cell in plan.cells:
        python = "every Python 3" if cell.python == "3" else f"Python {cell.python}"
        at = plan.machine.at(cell)
        toolkit, (_, host) = at.toolkits.get(cell.cuda), plan.machine.host_at(cell)
        cuda = f"CUDA {cell.toolkit} by {toolkit.provider} (nvcc {toolkit.nvcc})" if toolkit else "no CUDA"
        where = f", in {at.image.name}" if at.image else ""
        values = "".join(f", {name} {value}" for name, value in cell.axes)
        line(f"  {cell.id}: {python}, {cuda}{values}, {host.family} {host.version}{where}")
    runs = [name for name, verdict in verdicts.items() if verdict.run]
    line()
    line(f"{count(len(plan.actions), 'action')}, {len(runs)} to run", bold=True)
    for action in plan.actions:
        verdict = verdicts[action.id]
        if verdict.run:
            line(action.title, mark="  run      ", fg="yellow")
        elif verdict.stored is not None:
            line(action.title, mark="  reuse    ", fg="green")
        else:
            line(action.title, mark="  unneeded ", dim=True)
        if explain:
            line(f"           {why(verdict.reason)}", dim=True)
    _show_left_out(selection)


def show_result(result: Result, *, images: Sequence[str], explain: bool) -> None:
    """Print the wheels and their proofs, then the cells without a wheel, and why."""
    if explain:
        for action in result.plan.actions:
            line(action.title)
            line(f"  {words(result.outcome.results[action.id].reason)}", dim=True)
        line()
    for action in () if explain else result.plan.actions:
        if (reason := result.outcome.results[action.id].reason).kind == "output-damaged":
            say(
                shown(f"{action.title}: {why(reason)}; it was set aside, and the action ran again"),
                fg="yellow",
            )
    wheels = grouped((wheel.path, wheel) for wheel in result.wheels)
    gpu = any(action.gpu for action in result.plan.actions)
    for same in wheels.values():
        show_wheel(same, images, gpu=gpu)
    _show_left_out(result.selection)
    _show_missing(result)
    ran = [r for r in result.outcome.results.values() if r.state in RAN]
    what = (
        f"{count(len(ran), 'action')} ran" if ran else "nothing to do: every action's inputs are as they were"
    )
    for text in dict.fromkeys(note for each in ran for note in notes(each)):
        _warning(f"this machine: {text}")
    for text in cache_totals(filter(None, map(cache_use, ran))):
        line(f"compiler cache: {text}", dim=True)
    plan = result.plan
    planned = count(len({*plan.wheels.values(), *plan.kernels.values(), *(plan.front or ())[:1]}), "wheel")
    line(f"{len(wheels)} of {planned}, {what} ({short_seconds(result.seconds)})")
    if not ran and not explain:
        line("  --explain shows the reason for each action", dim=True)


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
    for what, cells in missing.items():
        say(shown(f"{what}: {', '.join(cells)}"), fg="red", bold=True)
    for action in plan.actions:
        if (failed := outcome.results[action.id]).state == "failed" and failed.error:
            say(shown(f"  {action.title}: {failed.error.message}"))
    for each in result.set_aside:
        moved = f"the older {shown(each.path.name)} is now in {shown(str(each.to.parent))}/"
        say(f"{moved}, so that nobody publishes it by mistake")


def _show_left_out(selection: Selection) -> None:
    for reason, cells in left_out_by_reason(selection.missing).items():
        line(f"left out: {', '.join(cells)}: {reason}", fg="yellow")
