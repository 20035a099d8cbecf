"""The requests for the kernels of one object of the manifest: a library made by a command, and the files of a wheel."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from gpuforge.plan.requests.request import Request


@dataclass(frozen=True)
class CompiledModule:
    """One compiled source: the module's name, the source's in the project, and its file and fatbin.

    Of a source that is compiled for several targets one after the other, `fatbin` is the file for `target`, and `kind`
    and `arch` are what the only image in it must be.
    """

    name: str
    source: str
    path: Path
    fatbin: Path
    target: str = ""
    suffix: str = ".fatbin"
    kind: str = ""
    arch: str = ""


@dataclass(frozen=True)
class UserSource:
    """One source for the user's machine: its name in the project, and its file."""

    source: str
    path: Path


@dataclass(frozen=True)
class CompiledBy:
    """The compiler that made the kernels. Of one from a package, `lock` lists the wheels that brought it."""

    family: str
    version: str = ""
    package: str = ""
    lock: Path | None = None


@dataclass(frozen=True, kw_only=True)
class UserToolchain:
    """How one toolchain compiles the sources on the user's machine."""

    name: str
    family: str
    version: str | None = None  # a range; None: any
    accepts: tuple[tuple[str, tuple[int, ...]], ...] = ()  # the same as comparisons
    path: str = ""  # the compiler's executable, where the manifest names one
    programs: str = ""  # pattern of its file names, whose group "version" follows the plain name
    answers: str = ""  # pattern for what it prints for --version, with a group "version"
    places: tuple[str, ...] = ()  # folders beside PATH, as patterns
    argv: tuple[str, ...]  # with `{compiler}`, `{sources}` and `{output}`
    product: str = ""  # where a command leaves the library
    offload: str = ""
    runtimes: tuple[str, ...] = ()
    install: Mapping[str, str] = field(default_factory=dict)
    makes: str = "library"  # or "module"
    sources: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompiledLibrary:
    """One compiled library; `cpu` is the level that it was compiled for, "" for any, None for GPUs."""

    path: Path
    cpu: str | None = None


@dataclass(frozen=True, kw_only=True)
class KernelIndex(Request):
    """Lay one object out below `output`: `fallback` has `toolchain` and `modules`, `user-compiled` the others."""

    program: ClassVar[str] = "kernel_index"
    name: str
    role: Literal["fallback", "user-compiled"]
    toolkit: str
    toolchain: CompiledBy | None = None
    modules: tuple[CompiledModule, ...] = ()
    archs: tuple[str, ...] = ()
    sources: tuple[UserSource, ...] = ()  # what is given to the compiler
    includes: tuple[UserSource, ...] = ()  # what must lie beside it: headers
    toolchains: tuple[UserToolchain, ...] = ()
    libraries: tuple[CompiledLibrary, ...] = ()  # a fallback of kind "library"
    abi: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)  # whose version is part of the ABI
    stands_in_for: str = ""  # the object that this fallback is used for
    fallbacks: tuple[str, ...] = ()  # those that stand in for this object
    kind: Literal["library", "module"] = "library"  # what is made of user-compiled sources
    cpu: str = ""  # the library that does a set's work on the CPU
    install: str = ""  # how a user gets what runs the modules
    output: Path


@dataclass(frozen=True, kw_only=True)
class CommandLibrary(Request):
    """Make one library by a command line, and check its ABI id."""

    program: ClassVar[str] = "command_library"
    name: str
    argv: tuple[str, ...]
    product: str = ""  # a pattern in the folder that the command runs in; "": it writes `made`
    made: Path
    abi: str
    packages: Mapping[str, str] = field(default_factory=dict)
    abi_file: Path  # the C file to write, which the command links in
    runtime: Path  # a folder with the runtime's abi.c, abi_id.py and elf.py, and what they import
    environment: Path
    python: Path
    scratch: Path
    output: Path
