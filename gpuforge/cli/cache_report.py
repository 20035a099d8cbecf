"""What the host builds of a run say of their compiler cache, for the summary."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuforge.execute.outcome import ActionResult
from gpuforge.toolchains.sccache import REPORT

_COUNTS = re.compile(r"(\d+) of (\d+) hits")


def said(result: ActionResult) -> str | None:
    """Return what the log of an action that ran says of the cache, as in `60 of 74 hits`; None if nothing."""
    if result.state != "done" or result.log is None:
        return None
    try:
        lines = result.log.read_text(errors="replace").splitlines()
    except OSError:
        return None
    return next((line.removeprefix(REPORT).strip() for line in lines if line.startswith(REPORT)), None)


def total(reports: Iterable[str]) -> list[str]:
    """Return the reports of several builds in few: their hits in one, and whatever else they say once."""
    counts, rest = [], []
    for report in reports:
        match = _COUNTS.match(report)
        counts += [(int(match[1]), int(match[2]))] if match else []
        rest += [other] if (other := report[match.end() :].removeprefix(", ") if match else report) else []
    hits = [f"{sum(hit for hit, _ in counts)} of {sum(of for _, of in counts)} hits"] if counts else []
    return hits + list(dict.fromkeys(rest))


def as_data(report: str) -> dict[str, int | str]:
    """Return one report as plain data: `hits` and `steps` where it has them, and the words."""
    match = _COUNTS.match(report)
    return ({"hits": int(match[1]), "steps": int(match[2])} if match else {}) | {"said": report}
