"""The folder of finished wheels: what gpuforge put there, and what it sets aside for a newer one that is kept back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuforge import digest, disk
from gpuforge.cli.build_result import BuiltWheel, SetAside, is_done
from gpuforge.execute.outcome import Outcome
from gpuforge.package import variants
from gpuforge.plan.lower.cell_actions import Plan

RECORD = ".gpuforge.json"  # in the folder: file name -> the package, the cell and the sha256 that it was put there with
ASIDE = ".set-aside"  # in the folder: what `dist/*.whl` and `dist/*` do not name


def kept_back(plan: Plan, outcome: Outcome) -> list[str]:
    """Return the cells that have a new wheel which was not proved or did not pass its test; none when interrupted."""
    if outcome.interrupted:
        return []
    made = [cell for cell in plan.wheels if is_done(outcome, _made(plan, cell))]
    put = proved(plan, outcome)
    return [cell for cell in made if cell not in put]


def proved(plan: Plan, outcome: Outcome) -> list[str]:
    """Return the cells whose wheels were proved and passed their tests.

    Kernels wheels and the package's own require each other's very version: of these it is all cells, or none.
    """
    found = [cell for cell in plan.wheels if _passed(plan, outcome, cell)]
    return [] if plan.kernels and len(found) < len(plan.wheels) else found


def _passed(plan: Plan, outcome: Outcome, cell: str) -> bool:
    ends = [each[cell] for each in (plan.wheels, plan.kernels, plan.reports) if cell in each]
    return all(is_done(outcome, end.action) for end in (*ends, *plan.tests.get(cell, ())))


def _made(plan: Plan, cell: str) -> str:
    """Return the action that makes the wheel that is proved: of a variant, the one that it is made of."""
    return plan.wheels[cell].action if plan.kernels else f"{cell}/wheel"


def keep_current(
    dist: Path, package: str, wheels: Sequence[BuiltWheel], cells: Iterable[str], tried: str = ""
) -> list[SetAside]:
    """Record the `wheels` as put into `dist`, and set aside the older ones of `cells`, whose newer ones are not there.

    A quick try for the architectures `tried` takes the place of such a try alone. What the user put or changed there is
    left alone: only a file counts that still has the recorded bytes.
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
        of = entry.get("package"), entry.get("cell"), entry.get("archs", "")
        if of not in {(package, cell, tried) for cell in cells}:
            continue
        del record[name]
        if path.is_file() and digest.of_file(path) == entry.get("sha256"):
            target = dist / ASIDE / name
            target.parent.mkdir(exist_ok=True)
            path.replace(target)
            moved.append(SetAside(entry["cell"], path, target))
    if wheels or moved:
        disk.write_text(dist / RECORD, json.dumps({"schema": 1, "wheels": record}, indent=1) + "\n")
    put_index(dist, [*(wheel.path.name for wheel in wheels), *(each.path.name for each in moved)])
    return moved


def put_index(dist: Path, names: Sequence[str]) -> None:
    """Write the index of each release that has a variant wheel among `names`, of all its variant wheels in `dist`.

    An index of no wheels is removed.
    """
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
    return {name: entry for name, entry in wheels.items() if "/" not in name and _is_sound(entry)}


def _is_sound(entry: object) -> bool:
    """Return whether an entry is one of ours: a project may have brought the folder."""
    return isinstance(entry, dict) and all(isinstance(value, str) for value in entry.values())
