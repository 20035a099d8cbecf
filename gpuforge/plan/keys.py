"""Keys: the hash of everything an action depends on, and the facts that explain a change of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, cast, get_args

from gpuforge import digest
from gpuforge.plan.action import Action, ActionInput, FileInput, Input

MOST_EXPLAINED = 200  # files of one input whose changes are listed one by one
FORMAT = 1  # raise it when the meaning of the hashed data changes: stored outputs are then not used


FactKind = Literal["", "file", "input", "env"]
_KINDS = frozenset(get_args(FactKind)) - {""}


class Fact(NamedTuple):
    """One part of a key: a file, an input or a variable, with its name. Other parts have an empty kind."""

    kind: FactKind
    name: str

    @property
    def label(self) -> str:
        """Return its label in keys and in the ledger: "file kernels/saxpy.cu", "compiler"."""
        return f"{self.kind} {self.name}" if self.kind else self.name

    @classmethod
    def of_label(cls, label: str) -> Fact:
        """Return the fact with this label."""
        kind, _, name = label.partition(" ")
        return cls(cast("FactKind", kind), name) if name and kind in _KINDS else cls("", label)


def labelled(facts: Mapping[Fact, str]) -> dict[str, str]:
    """Return facts by their labels."""
    return {fact.label: value for fact, value in facts.items()}


class Key(NamedTuple):
    """The key of one action (64 hexadecimal digits) and its named parts, by which a change is explained."""

    digest: str
    facts: Mapping[Fact, str]


def keys(actions: Iterable[Action]) -> dict[str, Key]:
    """Return the key of each action by its id.

    A key covers argv, request, environment, facts, image, the outputs' names, the digests of the files read and the
    keys of the actions whose outputs are read; never a path, a time or the name of a machine. So the same
    work has the same key in every folder and on every machine, before anything has run.
    Raises ValueError when an action needs one that does not come before it: a plan is in the order of the data flow.
    """
    found: dict[str, Key] = {}
    for action in actions:
        for need in action.needs:
            if need not in found:
                msg = f"action {action.id} needs {need}, which does not come before it in the plan"
                raise ValueError(msg)
        found[action.id] = _key(action, found)
    return found


def _key(action: Action, found: Mapping[str, Key]) -> Key:
    facts = {Fact("", name): value for name, value in action.facts.items()}
    for name, value in action.inputs.items():
        parts = value.parts if isinstance(value, FileInput) else ()
        files = {Fact("file", part): identity for part, identity in parts}
        if 0 < len(files) <= MOST_EXPLAINED and files.keys().isdisjoint(facts):
            facts |= files
        else:  # too many to list, or named like files of another input
            facts[Fact("input", name)] = _identity(value, found)
    facts |= {Fact("env", name): value for name, value in action.env.items()}
    step = action.step
    command = [step.program(), step.plain()] if step else [*action.argv]
    facts[Fact("", "command")] = digest.of_data(command)
    if action.image:
        facts[Fact("", "image")] = action.image
    whole = [FORMAT, action.kind, sorted(labelled(facts).items()), list(action.outputs)]
    return Key(digest.of_data(whole), MappingProxyType(facts))


def _identity(value: Input, found: Mapping[str, Key]) -> str:
    if isinstance(value, ActionInput):
        return f"{found[value.action].digest}:{value.output}"
    return value.digest
