"""The requests for the kernels of one object of the manifest, as they go into a wheel."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from gpuforge.cuda.kernel_image import KernelImage
from gpuforge.embedded.user_toolchain import UserToolchain
from gpuforge.plan.requests.request import Request


@dataclass(frozen=True)
class CompiledModule:
    """One compiled source: the module's name, the source's path in the project, its file, and the compiled file.

    The compiled file is a fatbin or, with `image`, the file for one of several targets. It must then have this image
    and no other.
    """

    name: str
    source: str
    path: Path
    compiled: Path
    target: str = ""
    suffix: str = ".fatbin"
    image: KernelImage | None = None


@dataclass(frozen=True)
class UserSource:
    """One source for the user's machine: its name in the project, and its file."""

    source: str
    path: Path


@dataclass(frozen=True)
class KernelCompiler:
    """The compiler that made the kernels. If it is from a package, `lock` lists the wheels that were installed."""

    family: str
    version: str = ""
    package: str = ""
    lock: Path | None = None


@dataclass(frozen=True)
class CompiledLibrary:
    """One compiled library, for the target of `image`; without one, for the GPUs that its code is for."""

    path: Path
    image: KernelImage | None = None


@dataclass(frozen=True, kw_only=True)
class LayKernels(Request):
    """Lay the kernels of one object out below `output`, as they go into a wheel."""

    verb: ClassVar[str] = "index"  # for the title of the action
    name: str
    toolkit: str
    output: Path


@dataclass(frozen=True, kw_only=True)
class IndexModules(LayKernels):
    """Index the modules of a fallback: the images that are really in them."""

    program: ClassVar[str] = "index_modules"
    toolchain: KernelCompiler
    modules: tuple[CompiledModule, ...]
    stands_in_for: str = ""  # the object that this fallback is used for
    cpu: str = ""  # the library that does a set's work on the CPU
    install: str = ""  # the command that installs what runs the modules


@dataclass(frozen=True, kw_only=True)
class IndexLibraries(LayKernels):
    """Index the libraries of a fallback: the GPUs or the level of CPUs that each is for."""

    program: ClassVar[str] = "index_libraries"
    toolchain: KernelCompiler
    libraries: tuple[CompiledLibrary, ...]
    abi: str
    packages: Mapping[str, str] = field(default_factory=dict)  # whose version is part of the ABI
    stands_in_for: str = ""  # the object that this fallback is used for
    fallbacks: tuple[str, ...] = ()  # those that stand in for this object


@dataclass(frozen=True, kw_only=True)
class GatherSources(LayKernels):
    """Gather the sources that users compile, with a recipe."""

    program: ClassVar[str] = "gather_sources"
    verb: ClassVar[str] = "gather"
    archs: tuple[str, ...] = ()
    sources: tuple[UserSource, ...]  # the arguments of the compiler
    includes: tuple[UserSource, ...] = ()  # headers that must lie beside them
    toolchains: tuple[UserToolchain, ...] = ()
    abi: str
    packages: Mapping[str, str] = field(default_factory=dict)  # whose version is part of the ABI
    kind: Literal["library", "module"]  # what they are compiled to
    fallbacks: tuple[str, ...] = ()  # those that stand in for this object
    cpu: str = ""  # the library that does a set's work on the CPU
