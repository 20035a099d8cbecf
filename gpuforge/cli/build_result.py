"""The result of one `gpuforge build`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuforge.execute.outcome import Outcome
from gpuforge.plan.cell import Selection
from gpuforge.plan.lower.cell_actions import Plan
from gpuforge.plan.trial_result import TrialResult

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


@dataclass(frozen=True, slots=True)
class SetAside:
    """An older wheel of a cell that was moved out of the output folder, as the newer one is kept back."""

    cell: str
    path: Path
    to: Path


@dataclass(frozen=True, slots=True)
class Result:
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
