"""Writes why actions run or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpuforge.execute.outcome import ActionReason, Change
from gpuforge.execute.times import local_time, short_seconds

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
    "upstream": lambda reason: f"needs {_first(reason.actions)}, which will run",
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
    "useless": lambda reason: f"nothing needs it any more: {reason.actions[0]} {_ended(reason)}",
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


def _first(actions: Sequence[str]) -> str:
    more = len(actions) - 1
    return f"{actions[0]} and {more} more" if more else actions[0]


def _changes(changes: Sequence[Change]) -> str:
    listed = [_change(each) for each in changes[:_MOST]]
    more = len(changes) - len(listed)
    return "; ".join([*listed, f"and {more} more"] if more else listed)


def _change(change: Change) -> str:
    fact, old, new = change.fact, change.old, change.new
    name = fact.label if fact.kind == "env" else fact.name
    if old is None:
        return f"{name} is new"
    if new is None:
        return f"{name} is gone"
    if any(len(value) > _LONGEST or "\n" in value for value in (old, new)):
        return f"{name} changed"
    return f"{name} {old or 'nothing'} → {new or 'nothing'}"
