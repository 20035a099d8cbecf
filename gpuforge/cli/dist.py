"""The folder of finished wheels, with a record of those that gpuforge put there, and a place for outdated ones."""

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

RECORD = ".gpuforge.json"  # in the folder: file name -> its package, cell and sha256 when it was put there
ASIDE = ".set-aside"  # in the folder: `dist/*.whl` and `dist/*` do not match it


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
    """Write the index of each release with a variant wheel among `names`; it lists all its variant wheels in `dist`.

    An index without wheels is removed.
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
    """Return whether an entry was written by gpuforge: a project may have brought the folder."""
    return isinstance(entry, dict) and all(isinstance(value, str) for value in entry.values())
