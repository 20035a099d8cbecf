"""When the actions of a plan run: in which pool, in which order, and how they share a working directory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from graphlib import TopologicalSorter

from gpuforge.plan.action import Action, Pool, Turns


def scheduled(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Return the actions, in their order, with `pool`, `priority` and `turns`.

    Downloads and preparations come in order of the longest chain of actions that waits for each. Packaging is short and
    others wait for it, so it comes before long actions.
    """
    plan = tuple(actions)
    waiting = _chains(plan)
    found = []
    for action in plan:
        pool: Pool = "downloads" if action.network else "jobs"
        chained = action.network or action.kind == "prepare"
        priority = waiting[action.id] if chained else int(action.kind == "package")
        found.append(replace(action, pool=pool, priority=priority, turns=_turns(action)))
    return tuple(found)


def _turns(action: Action) -> Turns:
    """On this machine siblings have one directory; in containers the first fills the compiler cache of the others."""
    if not action.place:
        return "together"
    return "one at a time" if action.image is None else "first alone"


def _chains(actions: tuple[Action, ...]) -> dict[str, int]:
    """Return, by id, the length of the longest chain of actions that waits for each one."""
    needs = {action.id: action.needs for action in actions}
    found = dict.fromkeys(needs, 0)
    for name in reversed(tuple(TopologicalSorter(needs).static_order())):
        for need in needs[name]:
            found[need] = max(found[need], found[name] + 1)
    return found
