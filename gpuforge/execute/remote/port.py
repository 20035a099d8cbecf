"""The port to an engine that has workers, such as dask: jobs are submitted to it and, how they end, read elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from gpuforge.execute.remote.abilities import Abilities
from gpuforge.execute.remote.job import Job


class Ticket(Protocol):
    """A job that was submitted."""

    def wait(self, seconds: float) -> bool:
        """Wait at most so long, and return whether the engine has done with the job, whatever became of it."""

    def word(self) -> str:
        """Return what the engine has of a job that it has done with: what `work_on` returned, or an error's text."""

    def drop(self) -> None:
        """Let the engine forget the job; one that runs is not ended by that."""


class Cluster(Protocol):
    """An engine with its workers."""

    def submit(self, job: Job, needs: Abilities, avoid: Collection[str]) -> Ticket:
        """Give a job to a worker that has what it needs, and is none of those to avoid, as soon as one is free."""

    def workers(self) -> Mapping[str, Abilities]:
        """Return what each worker that is there can do, by its name; raises MissingError without an engine."""
