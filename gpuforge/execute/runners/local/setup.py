"""Local processes as a choice of `--runner`. The runner is imported when something runs: often nothing does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from gpuforge.execute.runners.choice import RunnerSettings, SiteRequest
from gpuforge.execute.store import Store
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.variables import FILES

if TYPE_CHECKING:
    from gpuforge.execute.runners.local.local_runner import LocalRunner
    from gpuforge.execute.work import Workers

takes = ()


def sites(request: SiteRequest) -> list[ContainerImage]:
    """Return no image: the site is this machine."""
    return []


def workers(
    sites: Sequence[ContainerImage], settings: RunnerSettings, store: Store
) -> AbstractContextManager[Workers]:
    """Make the workers."""
    from gpuforge.execute.work import Workplace  # noqa: PLC0415

    return nullcontext(Workplace(store, runner(sites, settings)))


def runner(sites: Sequence[ContainerImage], settings: RunnerSettings) -> LocalRunner:
    """Make the runner."""
    from gpuforge.execute.runners.local.local_runner import LocalRunner  # noqa: PLC0415

    return LocalRunner(
        environ={FILES: str(settings.cache / "store" / "files"), **settings.variables},
        project=settings.project,
        limits=settings.limits,
        failed=settings.failed,
    )
