"""Decides which actions run at once: by the job slots of this machine, or by free workers elsewhere."""

import os
from collections import defaultdict
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from gpuforge.execute.work import Workers
from gpuforge.plan.action import Action, Pool

_SIDE_BY_SIDE = 4  # most actions with parallel jobs of their own at once
_LOOK = 2.0  # seconds between two looks for a free worker
_MOST_AT_ONCE = 1000  # actions on remote workers
_DOWNLOADS = 4  # at once, in addition to the job slots
_UNKNOWN = 1 << 30  # bytes that a process takes which was never measured: a compiler of C++ or CUDA
_CGROUPS = ("memory.max", "memory/memory.limit_in_bytes")  # versions 2 and 1


class Past(Protocol):
    """What earlier runs have shown about an action."""

    def is_short(self, name: str) -> bool:
        """Return whether it took little time."""

    def memory(self, name: str) -> int:
        """Return the most bytes that one of its processes took, 0 if that is not known."""


def machine_memory(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes that processes may take here: the machine's memory, or its container's."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _CGROUPS:
        with suppress(OSError, ValueError):  # version 2 has the word "max" where there is no limit
            found.append(int((cgroups / name).read_text()))
    return min(found)


class WorkersRoom:
    """The free workers on other machines, which the workers themselves keep account of.

    `look` is the time in seconds after which a worker may be free although nothing has ended; `most` is how many
    actions run at once.
    """

    def __init__(self, workers: Workers, actions: Mapping[str, Action]) -> None:
        self.most = _MOST_AT_ONCE
        self.look = _LOOK
        self._workers = workers
        self._actions = actions

    def take(self, name: str) -> int:
        """Return 1 if a worker is free for an action."""
        return int(self._workers.take_room(self._actions[name]))

    def ended(self, name: str) -> None:
        """Leave it to the workers."""


class JobSlots:
    """The job slots of one machine, on which several actions may share a working directory.

    No more processes run than memory allows, but one always does.
    """

    look = None

    def __init__(self, actions: Mapping[str, Action], jobs: int, memory: int, past: Past) -> None:
        self._actions = actions
        self._jobs = jobs
        self._memory = memory
        self._past = past
        self._held: dict[str, int] = {}  # the bytes that running actions may take
        self._free: dict[Pool, int] = {"jobs": jobs, "downloads": min(jobs, _DOWNLOADS)}
        self.most = sum(self._free.values())
        self._taken: dict[str, int] = {}  # the slots of running actions
        self._ended: set[str] = set()
        self._places: dict[tuple[str | None, str], set[str]] = defaultdict(set)
        for name, action in actions.items():
            self._places[action.image, action.place].add(name)

    def take(self, name: str) -> int:
        """Return the slots of an action: 0 if none is free, or another action has the working directory."""
        pool = self._actions[name].pool
        if self._free[pool] < 1:
            return 0
        alone = not self._joins(name)
        if alone and self._siblings(name) & self._taken.keys():
            return 0
        slots = self._share(name, alone=alone)
        if pool == "jobs":
            each = self._past.memory(name) or _UNKNOWN
            fit = (self._memory - sum(self._held.values())) // each
            if fit < 1 and self._held:
                return 0
            slots = min(slots, max(1, fit))
            self._held[name] = slots * each
        self._taken[name] = slots
        self._free[pool] -= slots  # perhaps below 0: then nothing starts until enough actions have ended
        return slots

    def ended(self, name: str) -> None:
        """Free the slots of an action."""
        self._ended.add(name)
        self._held.pop(name, None)
        if slots := self._taken.pop(name, 0):
            self._free[self._actions[name].pool] += slots

    def _share(self, name: str, *, alone: bool) -> int:
        """Return the slots for an action: one, or a fair part for an action with parallel jobs.

        Four of them side by side keep a machine busy: while one configures, the others compile.
        """
        if not self._actions[name].parallel:
            return 1
        if alone:
            return self._jobs
        rivals = sum(action.parallel and each not in self._ended for each, action in self._actions.items())
        return max(1, self._jobs // min(rivals, _SIDE_BY_SIDE))

    def _siblings(self, name: str) -> Set[str]:
        """Return the actions that have the same working directory and do not all run together."""
        action = self._actions[name]
        return frozenset() if action.turns == "together" else self._places[action.image, action.place]

    def _joins(self, name: str) -> bool:
        """Return whether an action may run beside its siblings; if the first runs alone, only after that."""
        siblings = self._siblings(name)
        if not siblings:
            return True
        first_is_alone = self._actions[name].turns == "first alone"
        return first_is_alone and (not siblings.isdisjoint(self._ended) or self._past.is_short(name))


def slots_of(
    workers: Workers, actions: Mapping[str, Action], jobs: int, memory: int, past: Past
) -> JobSlots | WorkersRoom:
    """Return the slots for a run's actions."""
    return WorkersRoom(workers, actions) if workers.is_remote else JobSlots(actions, jobs, memory, past)
