"""The parts of a cluster that bench/kills.py ends beside those of tests/integration/dask_service.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dask_service import processes
from docker import APIClient

from gpuforge.containers.engine import connect
from gpuforge.containers.leftovers import OWNER


class OwnWorkers:
    """The workers that each client starts on this machine; its nannies and its scheduler are the client's process."""

    address = ""

    def start(self, workers: int) -> None:
        """Do nothing."""

    def stop_workers(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def worker_processes(self) -> list[int]:
        """Return the processes that run tasks: the children of this program's."""
        found = processes()
        clients = {pid for pid, parent, _ in found if parent == os.getpid()}
        return [pid for pid, parent, command in found if parent in clients and "spawn_main" in command]


class Containers:
    """The containers of one campaign: those that have its folder for working directories mounted."""

    def __init__(self, work: Path) -> None:
        self._work = work

    def running(self) -> list[str]:
        """Return the ids of those that run."""
        with _engine() as engine:
            return [*self._found(engine, ended=False)]

    def left(self) -> list[str]:
        """Return the ids of all, also of those that have ended."""
        with _engine() as engine:
            return [*self._found(engine, ended=True)]

    def kill(self, container: str) -> None:
        """End one by SIGKILL, as `docker kill` does; it may have ended."""
        with _engine() as engine:
            engine.kill(container)

    def _found(self, engine: APIClient, *, ended: bool) -> Iterator[str]:
        for each in engine.containers(all=ended, filters={"label": OWNER}):
            if any(Path(mount.get("Source", "")).is_relative_to(self._work) for mount in each["Mounts"]):
                yield each["Id"]


@contextmanager
def _engine() -> Iterator[APIClient]:
    """Connect for a moment: a client that is forked off must not inherit the connection."""
    with closing(connect()) as client:
        yield client.api
