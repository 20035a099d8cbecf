"""Which builds use a shared store just now: what they may have been given is not pruned.

All times are the place's own: each build has an object of when it began, and one that it writes anew as a lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from gpuforge.execute.objects.port import Objects, ObjectsError
from gpuforge.execute.shared import names
from gpuforge.execute.shared.leases import Leases

GONE = 600.0  # seconds without a sign after which a build is gone


@contextmanager
def present(leases: Leases) -> Iterator[None]:
    """Be seen as a build that uses the store, as long as the context lasts."""
    folder = f"{names.BUILDS}/{uuid4().hex}"
    leases.objects.put(f"{folder}/began", b"")
    try:
        with leases.hold(f"{folder}/lives"):
            yield
    finally:
        with suppress(ObjectsError):  # it is taken for gone after a while
            leases.objects.remove(f"{folder}/began")


def now(objects: Objects) -> float:
    """Return the time by the clock of the place, in seconds since the epoch."""
    name = f"{names.CLOCK}/{uuid4().hex}"
    objects.put(name, b"")
    found = objects.find(names.CLOCK)
    objects.remove(name)
    return next(each.modified for each in found if each.name == name)


def oldest(objects: Objects) -> float:
    """Return when the oldest of the builds that live began, or the time of now where there is none.

    What a build that is gone left is removed.
    """
    time = now(objects)
    builds: dict[str, dict[str, float]] = {}
    for each in objects.find(names.BUILDS):
        folder, _, what = each.name.rpartition("/")
        builds.setdefault(folder, {})[what] = each.modified
    began = [time]
    for folder, signs in builds.items():
        if time - max(signs.values()) < GONE:
            began.append(min(signs.values()))
        else:
            for what in signs:
                objects.remove(f"{folder}/{what}")
    return min(began)
