"""The requests for a project's own build: its requirements, then the wheel."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request

Settings = Mapping[str, str | list[str]]  # config settings of PEP 517


@dataclass(frozen=True, kw_only=True)
class FetchRequirements(Request):
    """Make the environment that the builds of one Python start from.

    `requires` is what the manifest adds, `constraints` a file as pip reads it. `lock` gets the names of what was
    requested and each wheel's sha256.
    """

    program: ClassVar[str] = "fetch_requirements"
    source: Path
    python: Path
    requires: tuple[str, ...] = ()
    config_settings: Settings
    constraints: Path | None = None
    scratch: Path
    output: Path
    lock: Path


@dataclass(frozen=True, kw_only=True)
class HostBuild(Request):
    """Build one wheel into the folder `output`, in the environment that `FetchRequirements` made.

    `compilers` are programs by the names that the build calls them by ("g++"). Without `nvcc` the build gets no CUDA
    toolkit. `overlays` are folders that are laid over each other; `before` are commands that run first.
    """

    program: ClassVar[str] = "host_build"
    source: Path
    environment: Path
    python: Path
    compilers: Mapping[str, Path]
    nvcc: Path | None = None
    overlays: tuple[Path, ...] = ()
    config_settings: Settings
    before: tuple[tuple[str, ...], ...] = ()
    scratch: Path
    output: Path
