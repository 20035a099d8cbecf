"""Leases: the right to work on a key, across all machines. A lease is an object that its owner rewrites regularly.

Clocks of machines differ, so times are not compared: an owner counts as dead when its lease has not changed for a while
by the watcher's own clock. `leases/KEY/N` is the N-th lease since the key was last free; several may want to follow a
dead owner, and one of them succeeds in creating the next lease.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self
from uuid import uuid4

from gpuforge.cluster.objects import Objects, ObjectsError
from gpuforge.cluster.record import BUILDS, CLOCK, lease_folder
from gpuforge.errors import GpuforgeError

RENEW = 5.0  # seconds between two writes of an owner
STALE = 30.0  # seconds without a change after which an owner is dead
LOOK = 2.0  # seconds between two looks at another's lease
_LARGEST = 1 << 12  # bytes


class Lease:
    """A lease that this process has until `release`, or to the end of a `with`."""

    def __init__(self, leases: Leases, name: str, token: str) -> None:
        self.name, self._token = name, token
        self._leases, self._count = leases, 0

    def renew(self) -> None:
        """Write a sign of life."""
        self._count += 1
        self._leases.objects.put(self.name, self._leases.content(self._token, self._count))

    def release(self) -> None:
        """Release it."""
        self._leases.end(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Leases:
    """The leases of one process, which has this machine's lock of each key; `home` names the machine's cache."""

    def __init__(self, objects: Objects, home: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.objects = objects
        self._home, self._clock = home, clock
        self._seen: dict[str, tuple[bytes, float, float]] = {}  # key: content, since when, when last looked
        self._leases: dict[str, Lease] = {}
        self._guard = threading.Lock()
        self._renewer: threading.Thread | None = None

    def content(self, token: str, count: int = 0) -> bytes:
        """Return the content of a lease."""
        return json.dumps({"home": self._home, "token": token, "count": count}).encode()

    def is_due(self, key: str) -> bool:
        """Return whether a look at the lease of a key may show something new."""
        return key not in self._seen or self._clock() - self._seen[key][2] >= LOOK

    def take(self, key: str) -> Lease | None:
        """Take the lease of a key unless a live owner has it."""
        there = self.objects.names(lease_folder(key))
        number = 1
        if there:
            last = there[-1]
            if self._lives(key, self.objects.read(last, _LARGEST) or b""):
                return None
            number = _number(last) + 1
        token = uuid4().hex
        name = f"{lease_folder(key)}/{number:09}"
        content = self.content(token)
        if not self.objects.create(name, content):
            found = self.objects.read(name, _LARGEST)
            if found != content:
                if found == b"":  # no lease, such as a folder
                    self.objects.remove(name)
                return None
        self._seen.pop(key, None)
        for old in there:
            self.objects.remove(old)
        return self._keep(Lease(self, name, token))

    def hold(self, name: str) -> Lease:
        """Rewrite the object regularly until the lease is released."""
        lease = Lease(self, name, uuid4().hex)
        lease.renew()
        return self._keep(lease)

    def _keep(self, lease: Lease) -> Lease:
        with self._guard:
            self._leases[lease.name] = lease
            if self._renewer is None:
                self._renewer = threading.Thread(target=self._renew, name="leases", daemon=True)
                self._renewer.start()
        return lease

    def end(self, lease: Lease) -> None:
        """Remove a lease of this process; if that fails, it expires."""
        with self._guard:
            self._leases.pop(lease.name, None)
            with suppress(ObjectsError):
                self.objects.remove(lease.name)

    def _lives(self, key: str, content: bytes) -> bool:
        """Return whether the owner of a lease is alive, as far as this process has seen."""
        now = self._clock()
        if _home(content) == self._home:
            return False  # the caller has this machine's lock of the key, which that owner had
        before = self._seen.get(key)
        since = before[1] if before and before[0] == content else now
        self._seen[key] = content, since, now
        return now - since < STALE

    def _renew(self) -> None:
        while True:
            time.sleep(RENEW)
            with self._guard:
                if not self._leases:
                    self._renewer = None
                    return
                for lease in self._leases.values():
                    with suppress(GpuforgeError):  # an owner whose store fails for long loses its lease
                        lease.renew()


def _number(name: str) -> int:
    with suppress(ValueError):
        return int(name.rpartition("/")[2])
    return 0


def _home(content: bytes) -> str:
    try:
        return str(json.loads(content)["home"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


GONE = 600.0  # seconds without a sign of life after which a build counts as gone


@contextmanager
def present(leases: Leases) -> Iterator[None]:
    """Register as a build that uses the store, while the context lasts."""
    folder = f"{BUILDS}/{uuid4().hex}"
    leases.objects.put(f"{folder}/began", b"")
    try:
        with leases.hold(f"{folder}/lives"):
            yield
    finally:
        with suppress(ObjectsError):  # it counts as gone after a while
            leases.objects.remove(f"{folder}/began")


def now(objects: Objects) -> float:
    """Return the time by the clock of the place, in seconds since the epoch."""
    name = f"{CLOCK}/{uuid4().hex}"
    objects.put(name, b"")
    found = objects.find(CLOCK)
    objects.remove(name)
    return next(each.modified for each in found if each.name == name)


def oldest(objects: Objects) -> float:
    """Return the start of the oldest live build, or the present time if there is none.

    The objects of builds that are gone are removed.
    """
    time = now(objects)
    builds: dict[str, dict[str, float]] = {}
    for each in objects.find(BUILDS):
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
