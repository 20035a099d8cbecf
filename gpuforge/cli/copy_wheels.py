"""Copies finished wheels from the store to the user's folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuforge import digest, disk
from gpuforge.cli.build_result import BuiltWheel
from gpuforge.cli.dist import proved
from gpuforge.execute.outcome import Outcome, Step
from gpuforge.execute.store import Store
from gpuforge.plan.lower.cell_actions import Plan
from gpuforge.plan.trial_result import TrialResult


def copy_wheels(
    plan: Plan, steps: Sequence[Step], store: Store, outcome: Outcome, dist: Path
) -> list[BuiltWheel]:
    """Copy each proved and tested wheel from the store into `dist`, whole or not at all; return the copied wheels."""
    disk.sweep(dist)
    keys = {step.action.id: step.key for step in steps}
    found = []
    done = proved(plan, outcome)
    front = [plan.front] if plan.front and len(done) == len(plan.wheels) else []  # it requires all of them
    for cell in done:
        parts = [(plan.wheels[cell], plan.reports[cell], *plan.tests.get(cell, ()))]
        parts += [(plan.kernels[cell], plan.kernels_reports[cell])] if cell in plan.kernels else []
        for ends in (*parts, *front):
            stored = [
                entry.path(each.output)
                for each in ends
                if (entry := store.get(keys[each.action], links_out=False))
            ]
            if len(stored) < len(ends):
                continue
            (source,) = stored[0].glob("*.whl")
            report = json.loads(stored[1].read_bytes())
            found.append((source, cell, report, [TrialResult.read(path) for path in stored[2:]]))
    return [put(source, dist, cell, report, tests) for source, cell, report, tests in found]


def put(
    source: Path, dist: Path, cell: str, report: dict[str, Any], tests: Sequence[TrialResult] = ()
) -> BuiltWheel:
    """Copy one wheel into `dist` unless the same bytes are there already."""
    target, sha256 = dist / source.name, digest.of_file(source)
    if not (target.is_file() and digest.of_file(target) == sha256):
        try:
            with source.open("rb") as stream, disk.appearing(target) as part:
                shutil.copyfileobj(stream, part, 1 << 20)
        except OSError as error:
            error.filename = error.filename or str(target)  # errors of writing have no file name
            raise
    return BuiltWheel(cell, target, sha256, target.stat().st_size, report, tuple(tests))
