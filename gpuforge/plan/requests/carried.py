"""The request that looks at which libraries the packages of a build environment have."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request


@dataclass(frozen=True, kw_only=True)
class CarriedLibraries(Request):
    """Write the libraries of packages in `environment`: of `packages`, and of packages that are known to carry some."""

    program: ClassVar[str] = "carried_libraries"
    environment: Path
    packages: tuple[str, ...] = ()  # the manifest's: each must be there
    output: Path
