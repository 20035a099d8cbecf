"""The interface of plug-ins: what a toolchain's compiler does, here and on users' machines, and how it is found."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from packaging.version import Version

from gpuforge.cuda.kernels import KernelImage
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import CpuLevel


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler on this machine that printed its version."""

    family: str  # "g++", "clang++", "nvcc", "nvc++"
    path: Path
    version: Version
    identity: str  # the lines of its --version that identify the build; part of cache keys
    c_path: Path | None = None  # the C compiler of the same installation


@dataclass(frozen=True, slots=True)
class CompilerCall:
    """How a compiler makes one shared library of all sources of an object, or a module of each.

    These are filled in in `argv`: `{compiler}`; `{include}`, the folder of the sources, and `{folders}`, each folder
    with sources or headers; `{sources}`; `{abi}`, the C file with the ABI id; `{output}`; `{arch}` of the user's GPU
    ("90"); `{cuda}`, the toolkit's folder. A word is repeated for each value, and left out if there is no value.
    """

    argv: tuple[str, ...]
    runtimes: tuple[str, ...] = ()  # SONAMEs of a toolchain's runtimes that the library needs
    # by a distribution's ID in /etc/os-release; "": others
    install: Mapping[str, str] = field(default_factory=dict)
    version: str = ""  # the compilers that can, if the toolchain has no range: ">=16"
    offload: str = ""  # the target that GCC must have an offload compiler for: "nvptx-none"
    # what stands between several architectures in the word with `{arch}`; "": a word for each
    joins_archs: str = ""
    makes: str = "library"  # or "module": each source becomes a file that is loaded by name

    @property
    def for_gpus(self) -> bool:
        """Whether it compiles for the architectures that it is called with."""
        return any("{arch}" in word for word in self.argv)


class Family(NamedTuple):
    """The differences between compiler families, as data; each family has its own module."""

    name: str
    programs: re.Pattern[str]  # its file names; group "version" follows the plain name
    # --version output -> version, identity; None for other families
    parse: Callable[[str], tuple[Version, str] | None]
    runtimes: tuple[str, ...]  # SONAMEs that its output may need at run time, except libc's
    install: str  # how to install it, for hints
    places: tuple[str, ...] = ()  # glob patterns of the usual folders, beside PATH
    c_program: tuple[str, str] | None = None  # (C++ name, C name), as in ("g++", "gcc")
    # `parse` for a machine without gpuforge: a pattern for --version with a group "version"
    answers: str = ""

    def c_compiler(self, path: Path, *, is_file: Callable[[Path], bool] = Path.is_file) -> Path | None:
        """Return the C compiler beside a C++ compiler (`g++-14` -> `gcc-14`), if the file is there."""
        if self.c_program is None:
            return None
        beside = path.with_name(path.name.replace(*self.c_program))
        return beside if beside != path and is_file(beside) else None


Use = Literal["host build", "fallback library", "fallback module", "user-compiled"]
Kind = Literal["library", "module"]


class CompilerTarget(NamedTuple):
    """The target of an output of a packaged compiler: `name` is an entry of `[toolchains.*] targets`.

    `kind` and `built_for` are those of the image in the kernel set's index: the architecture of "ptx" and "cubin", the
    level of CPUs of a "library".
    """

    name: str
    kind: str
    built_for: Arch | CpuLevel | None

    @property
    def image(self) -> KernelImage:
        """The image that is compiled for it."""
        return KernelImage(self.kind, self.built_for)


def chosen(known: Sequence[CompilerTarget], names: Sequence[str]) -> list[CompilerTarget]:
    """Return the targets of these names; raises ValueError for a name that none has."""
    by_name = {each.name: each for each in known}
    for name in names:
        if name not in by_name:
            raise ValueError(f"{name!r} is not one of {', '.join(by_name)}")
    return [by_name[name] for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedCompiler:
    """A compiler from a package of the index. It runs in an environment with only this package.

    The words of a command may contain `{python}` (the environment's), `{programs}` (the folder with files of the
    plug-in), `{source}`, `{name}` (the source's name without its suffix) and `{output}`, the file to write.
    """

    requires: str  # the distribution: "halide"
    makes: Kind  # "library": objects that are linked into one; "module": files that are loaded by themselves
    targets: Callable[[Sequence[str], str], Sequence[CompilerTarget]]
    """From `[toolchains.*] targets` (empty: the compiler's default) and a machine ("x86_64"): the targets. Raises
    ValueError, with the reason, for an unknown target."""
    compile: Callable[[CompilerTarget, str, Sequence[str]], Sequence[str]]
    """From a target, the machine and the manifest's flags: the command that compiles one source."""
    runtime: Callable[[CompilerTarget, str], Sequence[str]] | None = None
    """The command for the object that is linked into a library once, for any number of sources."""
    programs: Path | None = None  # a folder of the plug-in with files that the commands need
    links: Callable[[CompilerTarget], Sequence[str]] | None = None
    """From a target: the arguments of the host compiler after the objects: `{programs}/driver.c`, `-ldl`."""
    suffix: str = ".o"  # of the output for one source
    runs_with: str = ""
    """The distribution that loads its modules on users' machines, in the same releases: "iree-base-runtime". An extra
    with the toolchain's name installs it, and the manifest must set the releases (`version`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """One compiler. Each part is one of its uses; a part that is None is a use that it does not have."""

    name: str  # as in `[toolchains.*] compiler`
    compiles: tuple[str, ...]  # suffixes of its sources in a set of modules
    program: Family | None = None  # how it is found on a machine; None: no program, or one from a package
    library: Callable[[Sequence[str], Sequence[str]], CompilerCall] | None = None
    """From names of sources and flags: how a user's machine makes one shared library."""
    no_libraries_of: str = ""  # a suffix that it hands to the linker, unless a flag (-x) names the language
    module: Callable[[Sequence[str], str], CompilerCall] | None = None
    """From flags and a toolkit ("12.4"): how a user's machine compiles one source; a program writes a cubin."""
    extra: Callable[[str], str] | None = None
    """From a toolkit: the requirement that installs the compiler on a user's machine, in the wheel's extra `name`."""
    packaged: PackagedCompiler | None = None  # how it compiles here, if it comes from a package
    by_command: bool = False  # it is a `command` of the manifest, run in the environment of the host build
    of_toolkit: bool = False  # it belongs to a CUDA toolkit, and needs the toolkit's libraries
    builtin: tuple[Use, ...] = ()  # gpuforge's own uses of it, in addition to its parts

    @property
    def uses(self) -> frozenset[Use]:
        """Its uses."""
        found: set[Use] = {*self.builtin}
        if self.library or self.module:
            found.add("user-compiled")
        if self.packaged:
            found.add("fallback library" if self.packaged.makes == "library" else "fallback module")
        return frozenset(found)

    @property
    def compiles_libraries(self) -> bool:
        """Whether it compiles fallback libraries here, by a program of its own instead of a toolkit's or package's."""
        return bool("fallback library" in self.uses and self.library and self.program) and not self.of_toolkit
