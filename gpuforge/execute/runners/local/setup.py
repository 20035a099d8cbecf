"""Local processes as a choice of `--runner`: no images, no limit but that of time."""

from __future__ import annotations

from collections.abc import Sequence

from gpuforge.execute.runners.choice import Environment, Wanted
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.plan.site import ContainerImage

takes = ("timeout",)


def sites(wanted: Wanted) -> list[ContainerImage]:
    """Return no image: the site is this machine."""
    return []


def runner(sites: Sequence[ContainerImage], environment: Environment) -> LocalRunner:
    """Make the runner."""
    return LocalRunner(
        environ=environment.variables,
        project=environment.project,
        limits=environment.limits,
        failed=environment.failed,
    )
