"""`dask worker --preload` of this module adds gpuforge's abilities to a worker: only such workers get actions."""

import os
import signal
import subprocess
import threading

from distributed import Worker

from gpuforge.cluster import abilities, reaper

CPUS = "cpus"
_guards: list[subprocess.Popen[bytes]] = []  # they live as long as this process


def dask_setup(worker: Worker) -> None:
    """Add this machine's abilities to the worker's resources; those of `--resources` take precedence."""
    found = abilities.of_this_machine()
    resources = {each.label: amount for each, amount in found.items()}
    for name, amount in {**resources, CPUS: len(os.sched_getaffinity(0))}.items():
        worker.state.total_resources.setdefault(name, amount)
        worker.state.available_resources.setdefault(name, amount)
    if abilities.CONTAINERS in found:
        _guards.append(reaper.start())
    if worker.nanny and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by its client or its nanny
