"""What client and workers have of one run: its jobs and, beside the store, small objects about each.

They are removed after the job, except `taken`, the worker that has it, which stays until the end of the run. The worker
writes `log-N`, a piece of its output. The client writes `begun`, once for all jobs of a run.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from gpuforge.cluster.objects import Objects
from gpuforge.execute.outcome import ActionResult
from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.work import Work
from gpuforge.locks import file_name
from gpuforge.plan.site import ContainerImage


class Board:
    """The objects of one job."""

    def __init__(self, objects: Objects, run: str, job: str) -> None:
        self._objects = objects
        self._run = f"runs/{run}"
        self._job = f"{self._run}/{file_name(job)}"

    def has_begun(self) -> bool:
        """Return whether the run's client uses these objects, and has not ended the run."""
        return self._objects.read(f"{self._run}/begun") is not None

    def take(self, worker: str) -> bool:
        """Write down which worker has the job; False if another one had it before, and may still have it."""
        name, text = f"{self._job}/taken", f"{uuid4().hex} {worker}".encode()
        return self._objects.create(name, text) or self._objects.read(name) == text

    def taken_by(self) -> str:
        """Return the worker that has the job; "" for none."""
        text = self._objects.read(f"{self._job}/taken") or b""
        return text.decode(errors="replace").partition(" ")[2]

    def log(self, number: int, text: bytes) -> None:
        """Send a piece of the log; the first has number 0."""
        self._objects.put(f"{self._job}/log-{number:08}", text)

    def logged(self, start: int) -> Iterator[bytes]:
        """Yield the pieces of the log that are there, in order, from this number on."""
        while (text := self._objects.read(f"{self._job}/log-{start:08}")) is not None:
            yield text
            start += 1

    def clear(self, but: str = "") -> None:
        """Remove everything about the job `but` one object: by `taken`, a worker that gets it again ignores it."""
        for name in self._objects.names(f"{self._job}/"):
            if name != f"{self._job}/{but}":
                self._objects.remove(name)


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


class JobEnd(NamedTuple):
    """How a worker ended a job: without a result it was not done, for a reason. An `unfit` worker cannot do it."""

    word: str
    result: ActionResult | None = None
    unfit: bool = False


def new_name(action: str) -> str:
    """Return a name for a job; it begins with the action's name, for the engine's display."""
    return f"{action}-{uuid4().int % 10**12:012}"
