"""The port to an engine that has workers, such as dask: it gets the jobs; how they end is read from the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from gpuforge.execute.remote.abilities import Abilities
from gpuforge.execute.remote.job import Job


class Ticket(Protocol):
    """A job that was submitted."""

    def wait(self, seconds: float) -> bool:
        """Wait at most so long, and return whether the engine has finished with the job, successfully or not."""

    def word(self) -> str:
        """Return what the engine has of a finished job: the word that `work_on` returned, or an error's text."""

    def drop(self) -> None:
        """Let the engine forget the job; a running one is not stopped."""


class Cluster(Protocol):
    """An engine with its workers."""

    def submit(self, job: Job, needs: Abilities, avoid: Collection[str]) -> Ticket:
        """Give a job to the first free worker that has what it needs and is not among those to avoid."""

    def workers(self) -> Mapping[str, Abilities]:
        """Return the abilities of each present worker, by its name; raises MissingError without an engine."""
