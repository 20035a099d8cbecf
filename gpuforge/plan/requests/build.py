"""The requests for a project's own build: its requirements, then the wheel."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request

Settings = Mapping[str, str | list[str]]  # config settings of PEP 517


@dataclass(frozen=True, kw_only=True)
class FetchRequirements(Request):
    """Fetch the build requirements of one Python as wheels into the folder `output`.

    `requires` are the manifest's, `answer` is a file with those of the project's backend (`AskBackend`), `constraints`
    a file as pip reads it. `lock` gets the requirements and each wheel's sha256.
    """

    program: ClassVar[str] = "fetch_requirements"
    source: Path
    python: Path
    requires: tuple[str, ...] = ()
    answer: Path
    constraints: Path | None = None
    scratch: Path
    output: Path
    lock: Path


@dataclass(frozen=True, kw_only=True)
class MakeEnvironment(Request):
    """Install the wheels of a folder, and nothing else, into an environment in `output`."""

    program: ClassVar[str] = "make_environment"
    wheels: Path
    python: Path
    output: Path


@dataclass(frozen=True, kw_only=True)
class AskBackend(Request):
    """Ask a project's build backend what it needs for a wheel (`get_requires_for_build_wheel`).

    It runs in `environment`, which has the wheels of `lock`. `answer` gets its requirements as JSON, none if all of
    them are met.
    """

    program: ClassVar[str] = "ask_backend"
    filled: ClassVar[tuple[str, ...]] = ("config_settings",)
    source: Path
    environment: Path
    python: Path
    config_settings: Settings
    version: str = ""  # of a checkout, as `git describe` writes it
    lock: Path
    scratch: Path
    answer: Path


@dataclass(frozen=True, kw_only=True)
class HostBuild(Request):
    """Build one wheel into the folder `output`, in the environment that `MakeEnvironment` made.

    `compilers` are programs by the names that the build calls them by ("g++"). Without `nvcc` the build gets no CUDA
    toolkit. `overlays` are folders that are laid over each other, and `sdists` lie in folders of their names beside
    them; `before` are commands that run first. `libraries` is a folder for the shared libraries that are in
    the overlays after the build.
    """

    program: ClassVar[str] = "host_build"
    filled: ClassVar[tuple[str, ...]] = ("config_settings", "before")
    source: Path
    environment: Path
    python: Path
    compilers: Mapping[str, Path]
    nvcc: Path | None = None
    overlays: tuple[Path, ...] = ()
    sdists: Mapping[str, Path] = field(default_factory=dict)
    config_settings: Settings
    version: str = ""  # of a checkout, as `git describe` writes it
    before: tuple[tuple[str, ...], ...] = ()
    scratch: Path
    output: Path
    libraries: Path | None = None
