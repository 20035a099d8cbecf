"""Verdicts: whether an action runs or its stored output is used, always with the reason."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from gpuforge.execute.ledger import Ledger, LedgerEntry
from gpuforge.execute.outcome import Reason, Step
from gpuforge.execute.store import Store, Stored
from gpuforge.execute.times import local_time, short_seconds
from gpuforge.plan.action import ActionInput

_DIGEST = re.compile(r"(sha256:)?[0-9a-f]{32,}(:.*)?", re.DOTALL)
_LONGEST = 40  # characters of a value that a reason still shows
_NOT_NEEDED = Reason("not needed", "everything that reads it is stored")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a step runs, and why; `stored` is the output of one that is reused."""

    run: bool
    reason: Reason
    stored: Stored | None = None


def verdicts(
    steps: Sequence[Step], *, store: Store, ledger: Ledger, project: str, wanted: Collection[str] = ()
) -> dict[str, Verdict]:
    """Return the verdict on every step, in their order.

    Only what is needed runs: the steps that no other reads, those in `wanted`, and what a step that runs
    reads. So a stored wheel needs nothing, even when the outputs it was made from are no longer stored.
    """
    stored = _needed(steps, store, wanted)
    running = frozenset(name for name, entry in stored.items() if entry is None)
    found: dict[str, Verdict] = {}
    for step in steps:
        name = step.action.id
        entry = stored.get(name)
        if entry is not None:
            found[name] = reuse(entry)
        elif name in running:
            damage = store.damage(step.key)
            reason = why(step, ledger.last(project, name), running=running, damage=damage)
            found[name] = Verdict(run=True, reason=Reason("runs", reason))
        else:
            found[name] = Verdict(run=False, reason=_NOT_NEEDED)
    return found


def _needed(steps: Sequence[Step], store: Store, wanted: Collection[str]) -> dict[str, Stored | None]:
    """Look up, from the last steps backwards, every step that something needs."""
    by_id = {step.action.id: step for step in steps}
    graph = {name: step.action.needs for name, step in by_id.items()}
    needed = (set(by_id) - {need for needs in graph.values() for need in needs}) | set(wanted)
    found: dict[str, Stored | None] = {}
    for name in reversed(tuple(TopologicalSorter(graph).static_order())):
        if name in needed:
            found[name] = store.get(by_id[name].key, links_out=by_id[name].action.links_out)
            if found[name] is None:
                needed.update(graph[name])
    return found


def reuse(stored: Stored) -> Verdict:
    """Return the verdict on a step whose output is stored."""
    entry = stored.entry
    why = f"same inputs as on {local_time(entry.finished)} ({short_seconds(entry.seconds)} saved)"
    return Verdict(run=False, reason=Reason("reused", why), stored=stored)


def why(step: Step, last: LedgerEntry | None, *, running: Collection[str] = (), damage: str = "") -> str:
    """Return why a step whose output is not stored runs, given its newest entry in the ledger."""
    if damage:
        return f"its stored output is damaged ({damage})"
    if last is None:
        return _after(step, running) or "never ran before"
    if last.key == step.key:
        when = local_time(last.time)
        return f"failed on {when}" if last.result == "failed" else f"its output of {when} is no longer stored"
    changes = list(_changes(step, last))
    if changes:
        shown = "; ".join(changes[:3])
        return shown if len(changes) <= 3 else f"{shown}; and {len(changes) - 3} more"
    return _after(step, running) or "what it reads or how it is run changed"


def _after(step: Step, running: Collection[str]) -> str:
    needs = [need for need in step.action.needs if need in running]
    if not needs:
        return ""
    others = f" and {len(needs) - 1} more" if len(needs) > 1 else ""
    return f"needs {needs[0]}{others}, which will run"


def _changes(step: Step, last: LedgerEntry) -> Iterator[str]:
    """Yield what differs from the last time, in the order of the facts, but for other actions' outputs.

    Those differ because something differs further up, which is reported as the action that runs.
    """
    upstream = {
        f"input {name}" for name, value in step.action.inputs.items() if isinstance(value, ActionInput)
    }
    names = [*step.facts, *(name for name in last.facts if name not in step.facts)]
    for name in names:
        old, new = last.facts.get(name), step.facts.get(name)
        if old != new and not (name in upstream and old is not None and new is not None):
            yield _change(name.removeprefix("input ").removeprefix("file "), old, new)


def _change(name: str, old: str | None, new: str | None) -> str:
    if old is None:
        return f"{name} is new"
    if new is None:
        return f"{name} is gone"
    if any(_DIGEST.fullmatch(value) or len(value) > _LONGEST or "\n" in value for value in (old, new)):
        return f"{name} changed"
    return f"{name} {old or 'nothing'} → {new or 'nothing'}"
