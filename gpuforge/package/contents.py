"""What a wheel gets from gpuforge, as values: sets of kernels and sources, and kernels wheels."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Generic, Literal, TypeVar

from gpuforge.cuda.kernels import Kernel, KernelImage

F = TypeVar("F")  # a file: its path, or in a plan the handle of it


@dataclass(frozen=True, slots=True)
class UserToolchain:
    """How one toolchain is found on the user's machine, and how it compiles the sources there.

    `argv` has `{compiler}`, `{sources}` and `{output}` in their places; the runtime fills in more, see CompilerCall.
    """

    name: str
    family: str
    version: str  # a version range, as in the manifest; "" for any
    argv: tuple[str, ...]
    accepts: tuple[tuple[str, tuple[int, ...]], ...] = ()  # the version range as comparisons
    programs: str = ""  # pattern of its file names, whose group "version" follows the plain name
    answers: str = ""  # pattern for its output of --version, with a group "version"
    places: tuple[str, ...] = ()  # folders beside PATH, as patterns
    product: str = ""  # pattern of the path at which a command writes the library; "": it writes {output}
    offload: str = ""  # the target that GCC must have an offload compiler for
    runtimes: tuple[str, ...] = ()  # SONAMEs of a toolchain's runtimes that the library needs
    install: Mapping[str, str] = field(default_factory=dict)  # how to install it, by distribution; "": others
    makes: str = "library"  # "library", or "module": images or sources that are loaded one by one
    sources: tuple[str, ...] = ()  # of a set of modules, those that it compiles
    devices: tuple[str, ...] = ()  # the kinds of OpenCL's devices that they are compiled for; empty for any
    extensions: tuple[str, ...] = ()  # of OpenCL, that a device must have
    by_command: bool = False  # `argv` is a command of the manifest, which begins with the program
    of_toolkit: bool = False  # its compiler belongs to a CUDA toolkit


@dataclass(frozen=True, slots=True)
class CompiledBy:
    """A compiler and its version: "nvcc", "13.0.88"."""

    family: str
    version: str = ""  # "" until it is read from a lock


@dataclass(frozen=True)
class CompiledModule(Generic[F]):
    """One compiled source: its path in the project, and the compiled file, in a plan the handle of it.

    `images` are those that were requested; without any, the compiled file is a fatbin, with all of its images. In an
    index they are those in the file. `target` distinguishes the files of one source that was compiled for several
    targets.
    """

    source: str
    compiled: F
    images: tuple[KernelImage, ...] = ()
    target: str = ""
    suffix: str = ".fatbin"
    kernels: tuple[Kernel, ...] = ()  # in the file; empty for a format whose kernels are not read

    @property
    def name(self) -> str:
        """The module's name: the source's without the suffix."""
        return PurePosixPath(self.source).stem


@dataclass(frozen=True)
class CompiledLibrary(Generic[F]):
    """One compiled library, in a plan the handle of it, and the GPUs of its images or the CPUs of a level.

    `images` are those that were requested; without any, all that its GPU code has.
    """

    path: F
    images: tuple[KernelImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSet:
    """A fallback of modules, without these."""

    name: str
    toolkit: str
    toolchain: CompiledBy
    stands_in_for: str = ""  # the object that this fallback is used for
    cpu: str = ""  # the library that does a set's work on the CPU
    install: str = ""  # the command that installs what runs the modules


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySet:
    """A fallback of libraries, without these: several are for several levels of CPUs, or targets of a compiler."""

    name: str
    toolkit: str
    toolchain: CompiledBy
    abi: str
    # the packages whose versions are part of the ABI: "major.minor"
    packages: Mapping[str, str] = field(default_factory=dict)
    stands_in_for: str = ""  # the object that this fallback is used for
    fallbacks: tuple[str, ...] = ()  # the objects whose libraries are used if none of these runs
    program: bool = False  # they are programs


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSet:
    """The sources of an object that users compile; names of files are relative to the project."""

    name: str
    toolkit: str
    archs: tuple[str, ...] = ()
    sources: tuple[str, ...]  # the arguments of the compiler
    includes: tuple[str, ...] = ()  # headers that must lie beside them
    toolchains: tuple[UserToolchain, ...] = ()  # in the order of the tries
    abi: str = ""  # the id of each compiled library
    # the packages whose versions are part of the ABI: "major.minor"
    packages: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["library", "module"] = "library"  # what they are compiled to
    fallbacks: tuple[str, ...] = ()  # the objects that are used if nothing was compiled
    cpu: str = ""  # the library that does a set's work on the CPU
    program: bool = False  # they are compiled to a program instead of a library


@dataclass(frozen=True, slots=True)
class KernelsWheel:
    """A kernels wheel: its distribution ("saxpy-kernels-cu13"), its folder, and the extra that installs it."""

    distribution: str
    folder: str
    extra: str


@dataclass(frozen=True, slots=True)
class KernelsWheelSet:
    """A kernel set of a kernels wheel, with the interface (`abi`) that the code of the package was built for."""

    name: str
    kind: str
    abi: str
    stands_in_for: str = ""  # the object that it replaces
    cpu: str = ""  # the library that does the work of its modules on the CPU


@dataclass(frozen=True, slots=True)
class FrontExtra:
    """An extra of the front package ("cuda12"), the wheel that it installs ("name-cu12"), and that wheel's extra."""

    extra: str
    distribution: str
    with_extra: str = ""  # "" if the wheel declares CUDA's packages without an extra


FOLDER = Path(__file__).resolve().parents[1] / "runtime"
SUFFIXES = frozenset({".py", ".c", ".h"})  # of the files that go into wheels
# In a module of gpuforge, the imports for type checkers, which do not run.
FOR_TYPES = re.compile(r"\nif TYPE_CHECKING:(?:\n[ \t]+.*|\n(?=\n|[ \t]))+")
ABI_C = FOLDER / "abi.c"  # compiled into each library that has an ABI id
ERRORS_H = FOLDER / "gpuforge_errors.h"  # for all sources of kernels
FOR_COMPILERS = (ABI_C, ERRORS_H)
# These, and what computes ABI ids and reads them from libraries; a test holds that they import no others.
FOR_COMMANDS = (*FOR_COMPILERS, *(FOLDER / name for name in ("abi_id.py", "elf.py", "document.py")))
