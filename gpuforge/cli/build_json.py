"""The plan and the result of `gpuforge build` as plain data (schema 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuforge.cli import cache_report, left_out
from gpuforge.cli.action_reason import words
from gpuforge.cli.build_result import RAN, Result, is_done
from gpuforge.execute.outcome import ActionReason
from gpuforge.plan.cell import Cell, Selection
from gpuforge.plan.lower.cell_actions import Plan
from gpuforge.plan.site import Machine
from gpuforge.plan.trial_result import TrialResult


def plan_data(
    plan: Plan, selection: Selection, reasons: Mapping[str, tuple[bool, ActionReason]]
) -> dict[str, Any]:
    """Return the plan as plain data (schema 1); `reasons` has for each action whether it runs, and why."""
    return {
        "schema": 1,
        "cells": [_cell_data(cell, plan.machine) for cell in plan.cells],
        "left_out": left_out.as_data(selection.left_out),
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
