"""The requests for the kernels of one object of the manifest, as they go into a wheel."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.package.contents import LibrarySet, ModuleSet, SourceSet
from gpuforge.plan.requests.request import Request


@dataclass(frozen=True)
class LockedPackage:
    """The requirement for the package that a compiler is from, and the list of wheels that has its version."""

    requires: str
    lock: Path


@dataclass(frozen=True, kw_only=True)
class LayKernels(Request):
    """Lay the kernels of one object out below `output`, as they go into a wheel."""

    verb: ClassVar[str] = "index"  # for the title of the action
    output: Path


@dataclass(frozen=True, kw_only=True)
class IndexModules(LayKernels):
    """Index the modules of a fallback: the images that are really in them."""

    program: ClassVar[str] = "index_modules"
    made: ModuleSet
    package: LockedPackage | None = None  # of the compiler, if its version is not known yet


@dataclass(frozen=True, kw_only=True)
class IndexLibraries(LayKernels):
    """Index the libraries of a fallback: the GPUs or the level of CPUs that each is for."""

    program: ClassVar[str] = "index_libraries"
    made: LibrarySet
    package: LockedPackage | None = None  # of the compiler, if its version is not known yet


@dataclass(frozen=True, kw_only=True)
class GatherSources(LayKernels):
    """Gather the sources that users compile, with a recipe."""

    program: ClassVar[str] = "gather_sources"
    verb: ClassVar[str] = "gather"
    gathered: SourceSet
