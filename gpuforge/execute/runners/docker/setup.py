"""Containers as a choice of `--runner`."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path

from gpuforge.containers import obtain
from gpuforge.containers.container import Containers, clear_leftovers
from gpuforge.containers.engine import connect
from gpuforge.containers.images import Images
from gpuforge.errors import MissingError
from gpuforge.execute.runners.choice import RunnerSettings, SiteRequest
from gpuforge.execute.runners.docker.docker_runner import DockerRunner
from gpuforge.execute.runners.local import setup as local_setup
from gpuforge.execute.store import Store
from gpuforge.execute.work import Workers, Workplace
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.variables import COMPILER_CACHE

takes = ("image",)


def sites(request: SiteRequest) -> list[ContainerImage]:
    """Return the images to build in, ready to run.

    Raises the errors of `obtain.images`, and MissingError for a memory limit that the engine would not keep.
    """
    try:
        client = connect()
    except MissingError as error:
        other = "or build with local processes: --runner local"
        raise MissingError.all_of(d._replace(hint=f"{d.hint}, {other}") for d in error.diagnostics) from error
    containers = Containers(client)
    if request.memory and not containers.limits_memory():
        raise MissingError.of(
            "this container engine cannot limit memory",
            hint="leave --memory out; an engine that runs without root needs cgroup v2, with its memory controller",
        )
    clear_leftovers(containers)
    return obtain.images(
        Images(client),
        request.images,
        test=request.test,
        machines=request.machines,
        cache=request.cache / "images",
        pulls=lambda reference: request.say(f"pulling {reference} …"),
    )


def workers(
    sites: Sequence[ContainerImage], settings: RunnerSettings, store: Store
) -> AbstractContextManager[Workers]:
    """Make the workers."""
    return nullcontext(Workplace(store, runner(sites, settings)))


def runner(sites: Sequence[ContainerImage], settings: RunnerSettings) -> DockerRunner:
    """Make the runner; actions that name no image run as processes of this machine."""
    variables = settings.variables
    return DockerRunner(
        {each.id: each for image in sites for each in (image, image.test) if each},
        local=local_setup.runner((), settings),
        cache=settings.cache,
        limits=settings.limits,
        environ=variables,
        caches={
            each.name: Path(variables[each.variable]) for each in COMPILER_CACHE if each.variable in variables
        },
        project=settings.project,
        failed=settings.failed,
    )


def missing(image: ContainerImage) -> str:
    """Return why this machine cannot run a container of an image; "" if it can."""
    try:
        client = connect()
    except MissingError as error:
        return error.diagnostics[0].message
    with closing(Images(client)) as images:
        there = images.find(image.id)
        clear_leftovers(Containers(client))
    return "" if there else f"does not have image {image.name} ({image.id[:19]})"
