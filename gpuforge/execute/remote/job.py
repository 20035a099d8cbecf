"""A job: one attempt of a worker to do the work of one action, with all that it takes, as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.work import Work
from gpuforge.plan.site import ContainerImage


@dataclass(frozen=True, slots=True)
class Run:
    """What all jobs of one run have in common.

    `store` is the URL of the shared store. Without one, the workers are processes of the client's machine, which have
    its folder `cache` in common; a worker elsewhere has a cache folder of its own. `failed` is the folder for working
    directories of actions that failed. `compiled` is the name of the
    project's compiler cache there. `id` tells this run from all others.
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
    """One attempt to do some work; `files` says under which keys its `FileInput`s are in the store, by name.

    `image` is the one that the action names. `name` is no other job's.
    """

    run: Run
    name: str
    work: Work
    files: dict[str, str]
    image: ContainerImage | None = None


def new_name(action: str) -> str:
    """Return a name for a job; it begins with its action's, as an engine shows it."""
    return f"{action}-{uuid4().int % 10**12:012}"
