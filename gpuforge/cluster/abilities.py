"""The abilities of workers and the needs of actions, as amounts by name that an engine's scheduler can match."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

import gpuforge
from gpuforge import digest
from gpuforge.containers.container import gpus
from gpuforge.containers.engine import connect
from gpuforge.errors import MissingError
from gpuforge.execute.slots import machine_memory
from gpuforge.plan import programs
from gpuforge.plan.action import Action

AbilityKind = Literal["", "gpuforge", "machine", "containers", "gpus", "memory"]
_KINDS = frozenset(get_args(AbilityKind)) - {""}


class Ability(NamedTuple):
    """What a worker has an amount of: bytes of memory, a version of gpuforge, a type of machine; "": not gpuforge's."""

    kind: AbilityKind
    name: str = ""

    @property
    def label(self) -> str:
        """Return its name for an engine's scheduler: "machine x86_64"."""
        return f"{self.kind} {self.name}".strip()

    @classmethod
    def of_label(cls, label: str) -> Ability:
        """Return the ability with this name."""
        kind, _, name = label.partition(" ")
        return cls(cast("AbilityKind", kind), name) if kind in _KINDS else cls("", label)


Abilities = Mapping[Ability, float]
CONTAINERS, GPUS, MEMORY = Ability("containers"), Ability("gpus"), Ability("memory")


class Lack(NamedTuple):
    """An ability of which a worker has too little; `other` is the one of the same kind that it has, if any."""

    ability: Ability
    needed: float
    has: float
    other: Ability | None


@cache
def identity() -> Ability:
    """Return the ability that a worker must share with the client: gpuforge's version and code, and the Python."""
    root = Path(gpuforge.__file__).parent
    code = [path for path in root.rglob("*") if path.suffix in programs.SUFFIXES]
    python = ".".join(map(str, sys.version_info[:2]))
    name = f"{version('gpuforge')} (code {digest.of_files(root, code)[:12]}) on Python {python}"
    return Ability("gpuforge", name)


def machine() -> Ability:
    """Return the ability to run programs of this machine's type."""
    return Ability("machine", platform.machine())


def of_this_machine() -> dict[Ability, float]:
    """Return the abilities of a worker on this machine."""
    found: dict[Ability, float] = {identity(): 1, machine(): 1, MEMORY: machine_memory()}
    try:
        with closing(connect()):
            found[CONTAINERS] = 1
    except MissingError:
        pass
    if count := gpus():
        found[GPUS] = count
    return found


def needed(action: Action, memory: int | None) -> dict[Ability, float]:
    """Return the abilities that an action needs; `memory` is the limit of its container, if any."""
    found: dict[Ability, float] = {identity(): 1, machine(): 1}
    if action.image:
        found[CONTAINERS] = 1
        if memory:
            found[MEMORY] = memory
    if action.gpu:
        found[GPUS] = 1
    return found


def lacking(needs: Abilities, has: Abilities) -> Iterator[Lack]:
    """Yield the abilities that an action needs and a worker lacks."""
    for ability, amount in needs.items():
        if (there := has.get(ability, 0)) < amount:
            other = next((each for each in has if each.kind == ability.kind), None)
            yield Lack(ability, amount, there, other)


_LISTED = 3  # workers that a message lists


def unable(needs: Abilities, workers: Mapping[str, Abilities]) -> str:
    """Return what an action with these needs waits for; "" if a present worker can do it."""
    if not workers:
        return "a worker; none is there yet"
    reasons = refused(needs, workers)
    return f"a worker that can do it: {reasons}" if reasons else ""


def refused(needs: Abilities, workers: Mapping[str, Abilities]) -> str:
    """Return what each worker lacks of these needs; "" if one lacks nothing, or there is none."""
    reasons = {name: [*lacking(needs, has)] for name, has in workers.items()}
    if not all(reasons.values()):
        return ""
    listed = "; ".join(
        f"{name} {' and '.join(map(predicate, each))}" for name, each in [*reasons.items()][:_LISTED]
    )
    more = len(reasons) - _LISTED
    return f"{listed}; and {more} more" if more > 0 else listed


def predicate(lack: Lack) -> str:
    """Write a lack as the predicate of a sentence about the worker: "has no GPU"."""
    match lack.ability.kind:
        case "gpuforge":
            return f"has {lack.other.label}" if lack.other else "was started without gpuforge's preload"
        case "machine":
            return (
                f"runs on {lack.other.name if lack.other else 'another machine'}, not on {lack.ability.name}"
            )
        case "containers":
            return "has no container engine"
        case "gpus":
            return "has no GPU"
        case "memory":
            return f"has {lack.has / 1e9:.0f} GB of memory, not {lack.needed / 1e9:.0f}"
        case _:
            return f"lacks {lack.ability.name}"
