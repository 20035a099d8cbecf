"""The use of the compiler cache by the host builds of a run, for the summary."""

from __future__ import annotations

from collections.abc import Iterable

from gpuforge.execute.outcome import ActionResult
from gpuforge.toolchains.sccache import CacheUse


def use_of(result: ActionResult) -> CacheUse | None:
    """Return an action's use of the compiler cache; None if it does not use it.

    The project's build may have written it, too: numbers and texts of another kind are ignored.
    """
    match result.counts.get("compiler_cache"):
        case {"hits": int(hits), "steps": int() | None as steps, "notes": [*notes]}:
            return CacheUse(hits, steps, tuple(map(str, notes)))
    return None


def total(uses: Iterable[CacheUse]) -> list[str]:
    """Return the cache use of several builds in few lines: the sum of their hits, and each note once."""
    found = list(uses)
    counted = [use for use in found if use.steps is not None]
    hits = CacheUse(sum(use.hits for use in counted), sum(use.steps or 0 for use in counted))
    notes = dict.fromkeys(str(CacheUse(notes=use.notes)) for use in found if use.notes)
    return [*([str(hits)] if hits.steps else []), *notes]


def as_data(use: CacheUse) -> dict[str, int | str]:
    """Return it as plain data: `hits` and `steps` if the cache was used, and both as a text."""
    counts = {"hits": use.hits, "steps": use.steps} if use.steps is not None else {}
    return counts | {"said": str(use)}
