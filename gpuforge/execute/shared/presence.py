"""The builds that use a shared store now: entries that they may have got are not pruned.

All times are the place's own. Each build has an object written at its start, and one that it rewrites as a lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from gpuforge.execute.objects.port import Objects, ObjectsError
from gpuforge.execute.shared import names
from gpuforge.execute.shared.leases import Leases

GONE = 600.0  # seconds without a sign of life after which a build counts as gone


@contextmanager
def present(leases: Leases) -> Iterator[None]:
    """Register as a build that uses the store, while the context lasts."""
    folder = f"{names.BUILDS}/{uuid4().hex}"
    leases.objects.put(f"{folder}/began", b"")
    try:
        with leases.hold(f"{folder}/lives"):
            yield
    finally:
        with suppress(ObjectsError):  # it counts as gone after a while
            leases.objects.remove(f"{folder}/began")


def now(objects: Objects) -> float:
    """Return the time by the clock of the place, in seconds since the epoch."""
    name = f"{names.CLOCK}/{uuid4().hex}"
    objects.put(name, b"")
    found = objects.find(names.CLOCK)
    objects.remove(name)
    return next(each.modified for each in found if each.name == name)


def oldest(objects: Objects) -> float:
    """Return the start of the oldest live build, or the present time if there is none.

    The objects of builds that are gone are removed.
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
