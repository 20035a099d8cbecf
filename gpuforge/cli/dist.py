"""The folder of finished wheels: what a build puts there, the record of it, and a place for outdated wheels."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuforge import digest, disk
from gpuforge.actions.cell_actions import Plan
from gpuforge.execute.outcome import Outcome, Step
from gpuforge.execute.store import Store
from gpuforge.plan.cell import Selection
from gpuforge.plan.source_files import RECORD, SET_ASIDE

if TYPE_CHECKING:
    from gpuforge.actions.trial_result import TrialResult

RAN = frozenset({"done", "failed", "cancelled"})  # states of an action that was started


@dataclass(frozen=True, slots=True)
class BuiltWheel:
    """A finished wheel in the output folder.

    `size` in bytes, `report` the audit's JSON report, `tests` the results of its tests.
    """

    cell: str
    path: Path
    sha256: str
    size: int
    report: Mapping[str, Any]
    tests: tuple[TrialResult, ...] = ()


class SetAside(NamedTuple):
    """An older wheel of a cell that was moved out of the output folder, as the newer one is kept back."""

    cell: str
    path: Path
    to: Path


class Result(NamedTuple):
    """The result of one `gpuforge build`; `seconds` from the call to the end."""

    plan: Plan
    selection: Selection
    outcome: Outcome
    wheels: list[BuiltWheel]
    seconds: float
    set_aside: Sequence[SetAside] = ()


def is_done(outcome: Outcome, action: str) -> bool:
    """Return whether an action's output is there."""
    return outcome.results[action].state in {"done", "reused"}


_DASHES = 4  # in the name of a wheel; a variant's has one more, before its label


def kept_back(plan: Plan, outcome: Outcome) -> list[str]:
    """Return the cells with a new wheel that was not proved or failed its test; none if the run was interrupted."""
    if outcome.interrupted:
        return []
    made = [cell for cell in plan.wheels if is_done(outcome, _made(plan, cell))]
    put = proved(plan, outcome)
    return [cell for cell in made if cell not in put]


def proved(plan: Plan, outcome: Outcome) -> list[str]:
    """Return the cells whose wheels were proved and passed their tests.

    Kernels wheels and the package's own require each other's exact version: of these, all cells are proved or none.
    """
    found = [cell for cell in plan.wheels if _passed(plan, outcome, cell)]
    return [] if plan.kernels and len(found) < len(plan.wheels) else found


def _passed(plan: Plan, outcome: Outcome, cell: str) -> bool:
    ends = [each[cell] for each in (plan.wheels, plan.kernels, plan.reports) if cell in each]
    return all(is_done(outcome, end.action) for end in (*ends, *plan.tests.get(cell, ())))


def _made(plan: Plan, cell: str) -> str:
    """Return the action that makes the wheel that is proved: for a variant, the wheel that it is made of."""
    return plan.wheels[cell].action if plan.kernels else f"{cell}/wheel"


def keep_current(
    dist: Path, package: str, wheels: Sequence[BuiltWheel], cells: Iterable[str], tried: str = ""
) -> list[SetAside]:
    """Record the `wheels` in `dist`, and set aside the older wheels of `cells`, whose new ones are not there.

    A quick try for the architectures `tried` replaces only another such try. Files that the user put or changed there
    are not touched: only files with the recorded bytes are.
    """
    record = _read(dist / RECORD)
    for wheel in wheels:
        record[wheel.path.name] = {
            "package": package,
            "cell": wheel.cell,
            "archs": tried,
            "sha256": wheel.sha256,
        }
    moved = []
    for name, entry in list(record.items()):
        path = dist / name
        made_for = entry.get("package"), entry.get("cell"), entry.get("archs", "")
        if made_for not in {(package, cell, tried) for cell in cells}:
            continue
        del record[name]
        if path.is_file() and digest.of_file(path) == entry.get("sha256"):
            target = dist / SET_ASIDE / name
            target.parent.mkdir(exist_ok=True)
            path.replace(target)
            moved.append(SetAside(entry["cell"], path, target))
    if wheels or moved:
        disk.write_text(dist / RECORD, json.dumps({"schema": 1, "wheels": record}, indent=1) + "\n")
    put_index(dist, [*(wheel.path.name for wheel in wheels), *(each.path.name for each in moved)])
    return moved


def put_index(dist: Path, names: Sequence[str]) -> None:
    """Write the index of each release with a variant wheel among `names`; it lists all its variant wheels in `dist`.

    An index without wheels is removed.
    """
    if not any(name.count("-") > _DASHES for name in names):
        return
    from gpuforge.package import variants

    releases = {release for name in names if (release := variants.release_of(name))}
    found = variants.index(dist, releases)
    for name, text in found.items():
        disk.write_text(dist / name, text)
    for release in releases:
        if f"{release}-variants.json" not in found:
            (dist / f"{release}-variants.json").unlink(missing_ok=True)


def _read(file: Path) -> dict[str, Mapping[str, Any]]:
    """Read the record; empty if it is not there or was changed."""
    try:
        wheels = json.loads(file.read_bytes())["wheels"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    if not isinstance(wheels, dict):
        return {}
    return {  # a project may have brought the folder
        name: entry
        for name, entry in wheels.items()
        if "/" not in name and isinstance(entry, dict) and all(isinstance(v, str) for v in entry.values())
    }


def copy_wheels(
    plan: Plan, steps: Sequence[Step], store: Store, outcome: Outcome, dist: Path
) -> list[BuiltWheel]:
    """Copy each proved and tested wheel from the store into `dist`, whole or not at all; return the copied wheels."""
    from gpuforge.actions.trial_result import TrialResult

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
            found.append((source, cell, report, [*map(TrialResult.read, stored[2:])]))
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
