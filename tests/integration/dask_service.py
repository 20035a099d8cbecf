"""A dask cluster of processes on this machine, whose parts can be ended one by one."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services import Service, free_ports

PRELOAD = "gpuforge.cluster.preload"  # by it workers say what they can do


@dataclass
class DaskCluster:
    """A scheduler and workers: each worker a nanny with its process, and a cache folder of its own.

    `env` is added to the workers' environment: the store, and how it is reached.
    """

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    workers: dict[str, Service] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (port,) = free_ports(1)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.address = f"tcp://127.0.0.1:{port}"
        argv = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
        argv += ["--port", str(port), "--no-dashboard"]
        self.scheduler = Service(argv, self.folder / "scheduler.log", port, {"TMPDIR": str(self.folder)})

    def start(self, workers: int) -> None:
        """Start the scheduler and so many workers, but those that run."""
        if not self.scheduler.alive:
            self.scheduler.start()
        for number in range(workers):
            self.start_worker(f"w{number}")

    def cache(self, name: str) -> Path:
        """Return a worker's cache folder."""
        return self.folder / name / "cache"

    def start_worker(self, name: str) -> None:
        """Start a worker unless it runs."""
        if name in self.workers and self.workers[name].alive:
            return
        (self.folder / name).mkdir(exist_ok=True)
        argv = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--name", name]
        argv += ["--nthreads", "1", "--nworkers", "1", "--host", "127.0.0.1", "--no-dashboard"]
        argv += ["--death-timeout", "30", "--local-directory", str(self.folder / name)]
        argv += ["--memory-limit", "0", "--preload", PRELOAD]
        env = {"GPUFORGE_CACHE_DIR": str(self.cache(name)), **self.env}
        self.workers[name] = Service(argv, self.folder / f"{name}.log", env=env)
        self.workers[name].start()

    def worker_processes(self) -> list[int]:
        """Return the processes that run tasks: the nannies' children."""
        nannies = {worker.process.pid for worker in self.workers.values() if worker.process and worker.alive}
        return [pid for pid, parent, command in processes() if parent in nannies and "spawn_main" in command]

    def nannies(self) -> list[int]:
        """Return the nannies that run."""
        return [worker.process.pid for worker in self.workers.values() if worker.process and worker.alive]

    def stop_workers(self) -> None:
        """End all workers."""
        for worker in self.workers.values():
            worker.stop(5)

    def stop(self) -> None:
        """End all of it."""
        self.stop_workers()
        self.scheduler.stop(5)


def processes() -> list[tuple[int, int, str]]:
    """Return the number, the parent and the command line of every process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found.append((int(folder.name), parent, command))
    return found


def end(pid: int) -> None:
    """End a process by SIGKILL."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
