"""Verdicts: whether an action runs or its stored output is used, always with the reason."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuforge.execute.ledger import Ledger, LedgerEntry
from gpuforge.execute.outcome import ActionReason, ActionResult, Change, Outcome, Step
from gpuforge.execute.store import Store, Stored
from gpuforge.plan.action import ActionInput
from gpuforge.plan.keys import Fact

_NOT_NEEDED = ActionReason("not-needed")


class Verdict(NamedTuple):
    """Whether a step runs, and why; `stored` is the output if it is reused."""

    run: bool
    reason: ActionReason
    stored: Stored | None = None

    def reused(self, name: str) -> ActionResult:
        """Return the result of its step, which does not run."""
        return ActionResult(name, "reused", self.reason, self.stored.entry.seconds if self.stored else 0.0)


def verdicts(
    steps: Sequence[Step], *, store: Store, ledger: Ledger, project: str, targets: Collection[str] = ()
) -> dict[str, Verdict]:
    """Return the verdict on every step, in their order.

    Only needed steps run: the last ones, those in `targets`, and those whose outputs a running step reads. A stored
    wheel thus needs nothing, even if the outputs that it was made from are no longer stored.
    """
    stored = _needed(steps, store, targets)
    running = frozenset(name for name, entry in stored.items() if entry is None)
    found: dict[str, Verdict] = {}
    for step in steps:
        name = step.action.id
        entry = stored.get(name)
        if entry is not None:
            found[name] = reuse(entry)
        elif name in running:
            reason = _reason(step, ledger.last(project, name), running, store.damage(step.key))
            found[name] = Verdict(run=True, reason=reason)
        else:
            found[name] = Verdict(run=False, reason=_NOT_NEEDED)
    return found


def nothing_ran(found: Mapping[str, Verdict]) -> Outcome:
    """Return the outcome of a run in which no step must run."""
    return Outcome({name: verdict.reused(name) for name, verdict in found.items()})


def _needed(steps: Sequence[Step], store: Store, targets: Collection[str]) -> dict[str, Stored | None]:
    """Look up, from the last steps backwards, every step that something needs."""
    found: dict[str, Stored | None] = {}
    read: set[str] = set()
    needed = set(targets)
    for step in reversed(steps):
        name, needs = step.action.id, step.action.needs
        if name in needed or name not in read:
            found[name] = store.get(step.key, links_out=step.action.links_out)
            if found[name] is None:
                needed.update(needs)
        read.update(needs)
    return found


def reuse(stored: Stored) -> Verdict:
    """Return the verdict on a step whose output is stored."""
    entry = stored.entry
    reason = ActionReason("stored", time=entry.finished, seconds=entry.seconds)
    return Verdict(run=False, reason=reason, stored=stored)


def _reason(step: Step, last: LedgerEntry | None, running: Collection[str], damage: str) -> ActionReason:
    """Return why a step whose output is not stored runs, given its newest entry in the ledger."""
    if damage:
        return ActionReason("output-damaged", problem=damage)
    upstream = tuple(need for need in step.action.needs if need in running)
    if last is None:
        return ActionReason("upstream", actions=upstream) if upstream else ActionReason("first")
    if last.key == step.key:
        return ActionReason("failed-before" if last.result == "failed" else "output-gone", time=last.time)
    if changes := tuple(_changes(step, last)):
        return ActionReason("changed", changes=changes)
    return ActionReason("upstream", actions=upstream) if upstream else ActionReason("changed-otherwise")


def _changes(step: Step, last: LedgerEntry) -> Iterator[Change]:
    """Yield the changes since the last time, in the order of the facts, except those of other actions' outputs.

    They have a cause in an earlier action, which is reported with that action.
    """
    inputs = step.action.inputs.items()
    made = {Fact("input", name) for name, value in inputs if isinstance(value, ActionInput)}
    before = {Fact.of_label(label): value for label, value in last.facts.items()}
    for fact in (*step.facts, *(fact for fact in before if fact not in step.facts)):
        old, new = before.get(fact), step.facts.get(fact)
        if old != new and not (fact in made and old is not None and new is not None):
            yield Change(fact, old, new)
