"""The content of a wheel for one object of a manifest: a set of modules, of libraries, or of sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuforge.cuda.kernel import Kernel
from gpuforge.cuda.kernel_image import KernelImage
from gpuforge.embedded.user_toolchain import UserToolchain


@dataclass(frozen=True, slots=True)
class CompiledBy:
    """A compiler and its version: "nvcc", "13.0.88"."""

    family: str
    version: str = ""  # "" until it is read from a lock


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """One compiled source: the module's name, the source's path in the project, its file, and the compiled file.

    `images` are those that were requested; without any, the compiled file is a fatbin, with all of its images. In an
    index they are those in the file. `target` distinguishes the files of one source that was compiled for several
    targets.
    """

    name: str
    source: str
    path: Path
    compiled: Path
    images: tuple[KernelImage, ...] = ()
    target: str = ""
    suffix: str = ".fatbin"
    kernels: tuple[Kernel, ...] = ()  # in the file; empty for a format whose kernels are not read


@dataclass(frozen=True, slots=True)
class CompiledLibrary:
    """One compiled library, and its targets: the GPUs of its images, or the CPUs of a level.

    `images` are those that were requested; without any, all that its GPU code has.
    """

    path: Path
    images: tuple[KernelImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSet:
    """The modules of a fallback."""

    name: str
    toolkit: str
    toolchain: CompiledBy
    modules: tuple[CompiledModule, ...]
    stands_in_for: str = ""  # the object that this fallback is used for
    cpu: str = ""  # the library that does a set's work on the CPU
    install: str = ""  # the command that installs what runs the modules


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySet:
    """The libraries of a fallback: several are for several levels of CPUs, or for several targets of a compiler."""

    name: str
    toolkit: str
    toolchain: CompiledBy
    libraries: tuple[CompiledLibrary, ...]
    abi: str
    # the packages whose versions are part of the ABI: "major.minor"
    packages: Mapping[str, str] = field(default_factory=dict)
    stands_in_for: str = ""  # the object that this fallback is used for
    fallbacks: tuple[str, ...] = ()  # the objects whose libraries are used if none of these runs


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSet:
    """The sources of an object that users compile; names of files are relative to the project."""

    name: str
    toolkit: str
    archs: tuple[str, ...] = ()
    sources: Mapping[str, Path]  # the arguments of the compiler
    includes: Mapping[str, Path] = field(default_factory=dict)  # headers that must lie beside them
    toolchains: tuple[UserToolchain, ...] = ()  # in the order of the tries
    abi: str = ""  # the id of each compiled library
    # the packages whose versions are part of the ABI: "major.minor"
    packages: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["library", "module"] = "library"  # what they are compiled to
    fallbacks: tuple[str, ...] = ()  # the objects that are used if nothing was compiled
    cpu: str = ""  # the library that does a set's work on the CPU
