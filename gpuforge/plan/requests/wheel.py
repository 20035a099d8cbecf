"""The requests for finished wheels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from gpuforge.cuda.linkage import Linkage, Requires
from gpuforge.embedded.build_record import BuildRecord
from gpuforge.embedded.major_wheels import FrontExtra, KernelsWheel, KernelsWheelSet
from gpuforge.plan.requests.request import Request
from gpuforge.plan.requests.toolkit_packages import WithToolkitPackages


@dataclass(frozen=True, kw_only=True)
class PackageWheel(WithToolkitPackages):
    """Make the finished wheel in the folder `output`, and one of its metadata alone in `declared`."""

    program: ClassVar[str] = "package_wheel"
    wheel: Path  # the host wheel, or the folder that holds it and no other
    name: str | None = None  # the distribution's expected name
    kernels: tuple[Path, ...] = ()  # folders, as the steps of `requests.kernels` make them
    package: str  # the import package that the kernels go into
    cuda: str  # the toolkit's version: "13.0"
    linkage: Linkage
    requires: Requires = "always"  # how the pip packages are declared
    naming: str
    narrowed: tuple[str, ...] = ()  # the architectures of a wheel for a quick try: "90"
    axes: tuple[str, ...] = ()  # values of the manifest's axes that are the wheel's own: "torch2.11"
    python: str | None = None  # the Python and ABI tags that the cell wants: "cp311"
    abi: str | None = None  # "abi3", "none"
    size_limit: int | None = None  # bytes
    exclude: tuple[str, ...] = ()  # libraries that stay out of the wheel: "gomp" of libgomp.so.1
    search_path: tuple[Path, ...] = ()  # where libraries to graft are looked for, besides the system's places
    libraries: Path | None = None  # a folder with those of the build's overlay, by any names
    provided: Path | None = None  # the result of fetch_provided: the packages of its CUDA libraries
    carried: Path | None = None  # the result of carried_libraries: those of the build environment
    more_requires: tuple[str, ...] = ()  # Requires-Dist lines of the manifest
    record: BuildRecord | None = None
    requirements: Path | None = None  # the lock of the build requirements, for the record
    c_header: bool = False  # whether programs in C find the kernels by a header in the wheel
    kernels_wheels: tuple[KernelsWheel, ...] = ()  # that its extras bring; then it is for all CUDA versions
    sets: tuple[KernelsWheelSet, ...] = ()  # the kernel sets in them
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # besides CUDA's packages
    work: Path | None = None  # where scratch files go; default: beside the output
    output: Path
    declared: Path | None = None


@dataclass(frozen=True, kw_only=True)
class PackageKernelsWheel(WithToolkitPackages):
    """Make a kernels wheel in the folder `output`, and one of its metadata alone in `declared`."""

    program: ClassVar[str] = "package_kernels_wheel"
    of: Path  # a wheel of the package's metadata, or its folder
    kernels_wheel: KernelsWheel
    kernels: tuple[Path, ...]  # folders, as the steps of `requests.kernels` make them
    sets: tuple[KernelsWheelSet, ...]
    cuda: str  # the toolkit's version: "13.0"
    machine: str
    linkage: Linkage
    size_limit: int | None = None  # bytes
    search_path: tuple[Path, ...] = ()
    record: BuildRecord
    work: Path
    output: Path
    declared: Path


@dataclass(frozen=True, kw_only=True)
class PackageFront(Request):
    """Make the front package in the folder `output`."""

    program: ClassVar[str] = "package_front"
    of: tuple[Path, ...]  # for each CUDA version a wheel of its metadata, or its folder
    distribution: str
    brought: tuple[FrontExtra, ...]
    work: Path
    output: Path


@dataclass(frozen=True, kw_only=True)
class VariantWheel(Request):
    """Make the variant wheel of a finished one, for the GPUs `gpus` ("90_real", "90_virtual")."""

    program: ClassVar[str] = "variant_wheel"
    wheel: Path
    cuda: str
    gpus: tuple[str, ...] = ()
    output: Path
