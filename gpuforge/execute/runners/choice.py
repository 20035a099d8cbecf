"""The runners that `--runner` names: for each, the module with its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from gpuforge.execute.store import Store
from gpuforge.plan.site import ContainerImage

if TYPE_CHECKING:
    from gpuforge.execute.runners.runner import Limits, Runner
    from gpuforge.execute.work import Workers

RUNNERS = {
    "local": "gpuforge.execute.runners.local.setup",
    "docker": "gpuforge.execute.runners.docker.setup",
    "dask": "gpuforge.cluster.runner",
}
_ON_A_WORKER = {False: "local", True: "docker"}  # the runner of actions without an image, and with one


class SiteRequest(NamedTuple):
    """The requested sites of a build: the images' names and machine types, and whether or where wheels are tested.

    `is_chosen` says whether the user named the images on the command line.
    """

    images: Sequence[str]
    machines: Sequence[str]
    is_chosen: bool
    test: str | bool
    cache: Path
    memory: int | None  # most bytes of one container
    say: Callable[[str], None]


class RunnerSettings(NamedTuple):
    """What a runner works with: the manifest's project, gpuforge's cache folder, the caller's variables and limits.

    `failed` is the folder for working directories of actions that failed; without it they are removed. `compiled` is
    the name of the project's compiler cache. `jobs` run at once here; `scheduler` is the address of a cluster's
    scheduler, and `shared` the address of the store that its workers share.
    """

    project: str
    cache: Path
    variables: Mapping[str, str]
    limits: Limits
    failed: Path | None = None
    compiled: str = ""
    jobs: int = 1
    scheduler: str | None = None
    shared: str | None = None


class Setup(Protocol):
    """The functions in the module of a runner."""

    @property
    def takes(self) -> Sequence[str]:
        """The options that it uses, of "image" and "scheduler"."""

    def sites(self, request: SiteRequest) -> list[ContainerImage]:
        """Return the images to build in, ready to run; none for this machine itself.

        Raises MissingError and UsageError if something is missing or not possible.
        """

    def workers(
        self, sites: Sequence[ContainerImage], settings: RunnerSettings, store: Store
    ) -> AbstractContextManager[Workers]:
        """Make the workers, for the sites that `sites` returned."""


class WorkerSetup(Setup, Protocol):
    """Those of a runner that workers of a cluster use, too."""

    def runner(self, sites: Sequence[ContainerImage], settings: RunnerSettings) -> Runner:
        """Make the runner, for these images."""

    def missing(self, image: ContainerImage) -> str:
        """Return why this machine cannot run an action in an image; "" if it can. Only a runner of images has it."""


def on_worker(*, in_image: bool) -> WorkerSetup:
    """Return the setup of the runner for actions with an image or, without one, on the machine itself."""
    return cast("WorkerSetup", chosen(_ON_A_WORKER[in_image]))


def chosen(name: str) -> Setup:
    """Return the setup of a runner; only then is its client library loaded."""
    return cast("Setup", import_module(RUNNERS[name]))
