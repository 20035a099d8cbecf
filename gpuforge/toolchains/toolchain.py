"""The interface of plug-ins: a `Toolchain` describes what its compiler does, here and on users' machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuforge.cuda.kernel_image import KernelImage
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu_level import CpuLevel
from gpuforge.toolchains.family import CompilerCall, Family

Use = Literal["host build", "fallback library", "fallback module", "user-compiled"]
Kind = Literal["library", "module"]


@dataclass(frozen=True, slots=True)
class CompilerTarget:
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
