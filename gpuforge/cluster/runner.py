"""The workers of a dask cluster as a choice of `--runner`: of an existing one, or of one on this machine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from uuid import uuid4

from gpuforge.cluster.board import Run
from gpuforge.cluster.client import RemoteWorkers
from gpuforge.cluster.objects import VARIABLE
from gpuforge.cluster.worker import of_client
from gpuforge.errors import MissingError, UsageError
from gpuforge.execute.runners.choice import RunnerSettings, SiteRequest, on_worker
from gpuforge.execute.store import Store
from gpuforge.execute.work import Workers
from gpuforge.plan.site import ContainerImage

takes = ("image", "scheduler")


def sites(request: SiteRequest) -> list[ContainerImage]:
    """Return the images that the user named, ready to run; without them, workers run local processes.

    Raises MissingError without dask, before anything else is done.
    """
    if find_spec("distributed") is None:
        message = "--runner dask needs the Python package distributed, which is not installed"
        raise MissingError.of(
            message, hint="pip install distributed cryptography, or gpuforge with its extra dask"
        )
    if not request.is_chosen:
        return []
    return on_worker(in_image=True).sites(request)


@contextmanager
def workers(sites: Sequence[ContainerImage], settings: RunnerSettings, store: Store) -> Iterator[Workers]:
    """Use the workers of the scheduler, or start some here, during a `with`."""
    from gpuforge.cluster.dask_cluster import connected, started  # noqa: PLC0415  an extra

    remote = settings.scheduler is not None
    if remote and not settings.shared:
        raise UsageError.of(
            "--scheduler needs a store that its workers share, and none is named",
            hint=f"set {VARIABLE} to a folder that all of them mount at the same path, to s3://… or gs://…",
        )
    run = Run(
        uuid4().hex,
        settings.project,
        settings.compiled,
        settings.limits,
        settings.shared,
        None if remote else settings.cache.absolute(),
        settings.failed and settings.failed.absolute(),
    )
    at = of_client(run, settings.cache, store)
    images = {each.id: each for image in sites for each in (image, image.test) if each}
    engine = connected(settings.scheduler) if settings.scheduler else started(settings.jobs)
    with engine as cluster, RemoteWorkers(run, at, cluster, images, is_remote=remote).begun() as found:
        found.refuse_others()
        yield found
