"""The messages between client and worker about one job: small objects beside the store.

They are removed after the job, except `taken`, the worker that has it, which stays until the end of the run. The worker
writes `beat`, which changes as long as it has the job, `log-N`, a piece of its output, and `end`, how it ended. The
client writes `kill` and, for all jobs of a run, `client`, which changes as long as it wants their results.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple
from uuid import uuid4

from pydantic import TypeAdapter

from gpuforge.cluster.objects import Objects, ObjectsError
from gpuforge.execute.outcome import ActionResult
from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.work import Work
from gpuforge.locks import file_name
from gpuforge.plan.site import ContainerImage

End = Literal["ended", "unfit"]  # the work has a result; or only this worker cannot do it


@dataclass(frozen=True, slots=True)
class _End:
    how: End
    result: ActionResult


class Board:
    """The objects of one job."""

    def __init__(self, objects: Objects, run: str, job: str) -> None:
        self._objects = objects
        self._run = f"runs/{run}"
        self._job = f"{self._run}/{file_name(job)}"

    def take(self, worker: str) -> bool:
        """Write down which worker has the job; False if another one had it before, and may still have it."""
        name, text = f"{self._job}/taken", f"{uuid4().hex} {worker}".encode()
        return self._objects.create(name, text) or self._objects.read(name) == text

    def taken_by(self) -> str:
        """Return the worker that has the job; "" for none."""
        text = self._objects.read(f"{self._job}/taken") or b""
        return text.decode(errors="replace").partition(" ")[2]

    def beat(self, count: int) -> None:
        """Write a sign of life of the worker."""
        self._objects.put(f"{self._job}/beat", str(count).encode())

    def beaten(self) -> bytes | None:
        """Return the worker's last sign of life."""
        return self._objects.read(f"{self._job}/beat")

    def client(self) -> bytes | None:
        """Return the client's last sign of life."""
        return self._objects.read(f"{self._run}/client")

    def kill(self) -> None:
        """Tell the worker to stop."""
        self._objects.put(f"{self._job}/kill", b"")

    def is_killed(self) -> bool:
        """Return whether the client wants the job to stop."""
        return self._objects.read(f"{self._job}/kill") is not None

    def log(self, number: int, text: bytes) -> None:
        """Send a piece of the log; the first has number 0."""
        self._objects.put(f"{self._job}/log-{number:08}", text)

    def logged(self, start: int) -> Iterator[bytes]:
        """Yield the pieces of the log that are there, in order, from this number on."""
        while (text := self._objects.read(f"{self._job}/log-{start:08}")) is not None:
            yield text
            start += 1

    def end(self, how: End, result: ActionResult) -> None:
        """Write down how the job ended; nothing is written to its log after it."""
        data = TypeAdapter(_End).dump_python(_End(how, replace(result, log=None)), mode="json")
        text = json.dumps(data, ensure_ascii=False).encode(errors="replace")  # file names may not be UTF-8
        self._objects.put(f"{self._job}/end", text)

    def ended(self, action: str) -> tuple[End, ActionResult] | None:
        """Return how the job of an action ended, None as long as it has not.

        Raises ObjectsError for an object that is not as workers write it.
        """
        data = self._objects.read(f"{self._job}/end")
        if data is None:
            return None
        try:
            end = TypeAdapter(_End).validate_json(data, strict=True)
            if end.result.id != action or not math.isfinite(end.result.seconds):
                msg = "it is not the end of this job"
                raise ValueError(msg)
        except ValueError as error:
            message = (
                f"what a worker wrote to {self._objects.url} about the end of {self._job} cannot be read"
            )
            raise ObjectsError.of(f"{message}: {error}", hint="run the same command again") from error
        return end.how, replace(end.result, log=None)

    def close(self) -> None:
        """Remove everything about the job except `taken`, by which a worker that gets it again ignores it."""
        for name in self._objects.names(f"{self._job}/"):
            if name != f"{self._job}/taken":
                self._objects.remove(name)

    def clear(self) -> None:
        """Remove everything about the job."""
        for name in self._objects.names(f"{self._job}/"):
            self._objects.remove(name)


class Pulse:
    """Whether the other side is alive: its sign of life changes. Only this machine's clock is used."""

    def __init__(
        self, read: Callable[[], bytes | None], seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._seconds = seconds
        self._clock = clock
        self._last: bytes | None = None
        self._changed = clock()

    def is_there(self) -> bool:
        """Return whether it changed within the last seconds; it does not if the store cannot be read."""
        try:
            now = self._read()
        except (OSError, ObjectsError):
            now = self._last
        if now != self._last:
            self._last, self._changed = now, self._clock()
        return self._clock() - self._changed < self._seconds


class Run(NamedTuple):
    """The values that all jobs of one run share.

    `store` is the URL of the shared store. Without one, the workers are processes of the client's machine, which have
    its folder `cache` in common, and `failed` for working directories of actions that failed; a worker elsewhere has a
    cache folder of its own. `compiled` is the name of the project's compiler cache there. `id` is unique to the run.
    """

    id: str
    project: str
    compiled: str
    limits: Limits
    store: str | None = None
    cache: Path | None = None
    failed: Path | None = None


class Job(NamedTuple):
    """One attempt to do some work; `files` has the keys of its `FileInput`s in the store, by name.

    `image` is the one that the action names. `name` is unique.
    """

    run: Run
    name: str
    work: Work
    files: dict[str, str]
    image: ContainerImage | None = None


def new_name(action: str) -> str:
    """Return a name for a job; it begins with the action's name, for the engine's display."""
    return f"{action}-{uuid4().int % 10**12:012}"
