"""The facts in a project's CMake files, for one choice of its options."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuforge.project.files import Seen, Where
from gpuforge.runtime.arch import Target


@dataclass(frozen=True, slots=True)
class Use:
    """A use of CUDA: of its language, or of the toolkit alone; `sure` if no unknown condition is around it."""

    where: Where
    sure: bool
    language: bool
    version: str = ""  # of CUDA, from find_package(CUDAToolkit 12.9)
    required: bool = True
    perhaps: bool = False  # a find_package without REQUIRED, which other code may only take a hint from


@dataclass(frozen=True, slots=True)
class Package:
    """A find_package that may run."""

    name: str
    where: Where
    required: bool
    sure: bool


@dataclass(frozen=True, slots=True)
class ThisCpu:
    """Code that is compiled for the CPU of the machine that builds, with the options that lead there."""

    where: Where
    options: tuple[str, ...]


@dataclass(slots=True)
class CMake:
    """What the top file and all files that it includes do in one build."""

    options: dict[str, Seen] = field(default_factory=dict)  # the value of each
    blocked: dict[str, None] = field(default_factory=dict)  # variables for which a branch was not taken
    words: set[str] = field(default_factory=set)  # the arguments of all commands
    uses: list[Use] = field(default_factory=list)  # of CUDA
    packages: list[Package] = field(default_factory=list)
    targets: list[Seen] = field(default_factory=list)  # "cufft" of CUDA::cufft, "nccl" of NCCL::NCCL
    static: list[Seen] = field(default_factory=list)  # "nccl_static"
    archs: dict[Target, Where] = field(default_factory=dict)  # that the files set themselves
    own_archs: list[Seen] = field(default_factory=list)  # variables that they are read from
    computed_archs: Where | None = None  # flags for architectures that only a build knows
    downloads: list[Seen] = field(default_factory=list)
    this_cpu: list[ThisCpu] = field(default_factory=list)
    minimum: Seen | None = None  # the oldest cmake_minimum_required

    @property
    def cuda(self) -> int:
        """How certainly CUDA is used: 4 its language, 3 the toolkit, 2 and 1 perhaps, 0 not."""
        return max(((3 + use.language if use.sure else 1 + use.language) for use in self.uses), default=0)
