"""The runners that `--runner` names: each is a folder with a module `setup`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from gpuforge.execute.runners.runner import Limits, Runner
from gpuforge.plan.site import ContainerImage

RUNNERS = ("local", "docker")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The sites that a build is to run in: the images' names, and whether wheels are tested, or in which image."""

    images: Sequence[str]
    test: str | bool
    cache: Path
    memory: int | None  # most bytes of one container
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Environment:
    """What a runner works with: the manifest's project, gpuforge's cache folder, the caller's variables and limits.

    `failed` is the folder for working directories of actions that failed; without it they are removed.
    """

    project: str
    cache: Path
    variables: Mapping[str, str]
    limits: Limits
    failed: Path | None = None


class Setup(Protocol):
    """What the module `setup` of a runner has."""

    @property
    def takes(self) -> Sequence[str]:
        """Those of the options "image", "memory" and "timeout" that it heeds."""

    def sites(self, wanted: Wanted) -> list[ContainerImage]:
        """Return the images to build in, ready to run; none for this machine itself.

        Raises MissingError and UsageError for what is not there or cannot be done.
        """

    def runner(self, sites: Sequence[ContainerImage], environment: Environment) -> Runner:
        """Make the runner, for the sites that `sites` returned."""


def chosen(name: str) -> Setup:
    """Return the setup of a runner; only then is its client library loaded."""
    return cast("Setup", import_module(f"{__package__}.{name}.setup"))
