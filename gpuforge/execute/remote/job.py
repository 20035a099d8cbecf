"""A job: one attempt of a worker to do the work of one action, as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.work import Work
from gpuforge.plan.site import ContainerImage


@dataclass(frozen=True, slots=True)
class Run:
    """The values that all jobs of one run share.

    `store` is the URL of the shared store. Without one, the workers are processes of the client's machine, which have
    its folder `cache` in common; a worker elsewhere has a cache folder of its own. `failed` is the folder for working
    directories of actions that failed. `compiled` is the name of the project's compiler cache there. `id` is unique to
    the run.
    """

    id: str
    project: str
    compiled: str
    limits: Limits
    store: str | None = None
    cache: Path | None = None
    failed: Path | None = None


@dataclass(frozen=True, slots=True)
class Job:
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
