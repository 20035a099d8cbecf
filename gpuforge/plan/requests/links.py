"""The requests that find out which CUDA libraries a wheel uses, and what their packages have and need."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request
from gpuforge.plan.requests.toolkit_packages import WithToolkitPackages


@dataclass(frozen=True, kw_only=True)
class WheelLinks(WithToolkitPackages):
    """Write the symbols that a wheel and its kernel libraries use of CUDA's packages."""

    program: ClassVar[str] = "wheel_links"
    wheel: Path  # the wheel, or a folder with nothing else
    kernels: tuple[Path, ...] = ()  # libraries that go into it
    cuda: str  # the toolkit: "13.0"
    scratch: Path
    output: Path


@dataclass(frozen=True, kw_only=True)
class FetchProvided(Request):
    """Look on the index at the packages of the libraries in `links`, as `WheelLinks` wrote it."""

    program: ClassVar[str] = "fetch_provided"
    links: Path
    cuda: str
    machine: str
    output: Path
