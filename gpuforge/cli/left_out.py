"""Writes why cells of the matrix are not built."""

from __future__ import annotations

from collections.abc import Iterable

from gpuforge.plan.cell import LeftOut, LeftOutReason


def reason_text(reason: LeftOutReason) -> str:
    """Return the reason in one line."""
    facts = reason.facts
    if reason.kind == "missing":
        return "; ".join(facts["problems"])
    text = f"not selected by {facts['option'][0]} {','.join(facts['values'])}"
    return f"{text}: [cuda.{facts['cuda'][0]}] has {', '.join(facts['archs'])}" if "archs" in facts else text


def as_data(left_out: Iterable[LeftOut]) -> list[dict[str, str]]:
    """Return each omitted cell with the reason, as plain data."""
    return [{"cell": item.cell.id, "reason": reason_text(item.reason)} for item in left_out]


def by_reason(left_out: Iterable[LeftOut]) -> dict[str, list[str]]:
    """Return the ids of the cells by the reason."""
    reasons: dict[str, list[str]] = {}
    for item in left_out:
        reasons.setdefault(reason_text(item.reason), []).append(item.cell.id)
    return reasons
