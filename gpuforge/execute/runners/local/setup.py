"""Local processes as a choice of `--runner`: no images, and no limit except on time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from gpuforge.execute.perform import LocalMachine, Workers
from gpuforge.execute.runners.choice import RunnerSettings, SiteRequest
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.store import WorkStore
from gpuforge.plan.site import ContainerImage

takes = ("timeout",)


def sites(request: SiteRequest) -> list[ContainerImage]:
    """Return no image: the site is this machine."""
    return []


def workers(
    sites: Sequence[ContainerImage], settings: RunnerSettings, store: WorkStore
) -> AbstractContextManager[Workers]:
    """Make the workers."""
    return nullcontext(LocalMachine(store, runner(sites, settings)))


def runner(sites: Sequence[ContainerImage], settings: RunnerSettings) -> LocalRunner:
    """Make the runner."""
    return LocalRunner(
        environ=settings.variables,
        project=settings.project,
        limits=settings.limits,
        failed=settings.failed,
    )
