"""The task of a dask worker: one job. dask returns only a word; the result is in the store."""

from __future__ import annotations

import os

from distributed import get_worker

from gpuforge.execute.remote.job import Job
from gpuforge.execute.remote.worker import work_on
from gpuforge.execute.runners.dask.preload import CPUS


def run(job: Job) -> str:
    """Do a job on this worker."""
    worker = get_worker()
    cpus = int(worker.state.total_resources.get(CPUS, 0)) or len(os.sched_getaffinity(0))
    return work_on(job, worker.address, cpus)
