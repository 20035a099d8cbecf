"""The interface of plug-ins: one `Toolchain`, with the abilities of its compiler, here and on users' machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuforge.cuda.arch import Arch
from gpuforge.cuda.cpu_level import CpuLevel
from gpuforge.cuda.kernel_image import KernelImage
from gpuforge.toolchains.family import Family, LibraryCall

Use = Literal["host build", "fallback library", "fallback module", "user-compiled"]
Kind = Literal["library", "module"]


@dataclass(frozen=True, slots=True)
class Target:
    """The target of one output of a packaged compiler: `name` is an entry of `[toolchains.*] targets`.

    `kind` and `built_for` are those of the image in the kernel set's index: the architecture of "ptx" and "cubin", the
    level of CPUs of a "library".
    """

    name: str
    kind: str
    built_for: Arch | CpuLevel | None

    @property
    def image(self) -> KernelImage:
        """The image that it gives."""
        return KernelImage(self.kind, self.built_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedCompiler:
    """A compiler that a package of the index brings. It is called in an environment that holds nothing else.

    The words of a command may hold `{python}` (the environment's), `{programs}` (the folder with files of the plug-in),
    `{source}`, `{name}` (the source's name without its suffix) and `{output}`, the file to write.
    """

    requires: str  # the distribution: "halide"
    makes: Kind  # "library": objects that are linked into one; "module": files that are loaded by themselves
    targets: Callable[[Sequence[str], str], Sequence[Target]]
    """Of `[toolchains.*] targets` (none: the compiler's own choice) and a machine ("x86_64"): what is compiled for.
    Raises ValueError, with the reason, for a target that it does not know."""
    compile: Callable[[Target, str, Sequence[str]], Sequence[str]]
    """Of a target, the machine and the manifest's flags: the command that compiles one source."""
    runtime: Callable[[Target, str], Sequence[str]] | None = None
    """The command for the object that is linked into a library once, however many sources it has."""
    programs: Path | None = None  # a folder of the plug-in with files that the commands need
    links: Callable[[Target], Sequence[str]] | None = None
    """Of a target: what the host compiler gets beside the objects: `{programs}/driver.c`, `-ldl`."""
    suffix: str = ".o"  # of what one source becomes
    runs_with: str = ""
    """The distribution that loads its modules on users' machines, of the same releases: "iree-base-runtime". An extra
    with the toolchain's name brings it, and the manifest must name the releases (`version`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """One compiler. Each part is a use that it can be put to; a part that is None is one that it has not."""

    name: str  # as in `[toolchains.*] compiler`
    compiles: tuple[str, ...]  # suffixes of the sources that it is given in a set of modules
    program: Family | None = None  # how it is found on a machine; None: no program, or one from a package
    library: Callable[[Sequence[str], Sequence[str]], LibraryCall] | None = None
    """Of names of sources, and flags: how a user's machine makes one shared library."""
    module: Callable[[Sequence[str], str], LibraryCall] | None = None
    """Of flags and a toolkit ("12.4"): how a user's machine compiles one source by itself; a program writes a cubin."""
    extra: Callable[[str], str] | None = None
    """Of a toolkit: the requirement that brings the compiler to a user's machine, as the wheel's extra `name`."""
    packaged: PackagedCompiler | None = None  # how it compiles here, where it comes from a package
    by_command: bool = False  # it is a `command` of the manifest, run in the environment of the host build
    of_toolkit: bool = False  # it is a CUDA toolkit's own, and needs the toolkit's libraries
    builtin: tuple[Use, ...] = ()  # what gpuforge itself calls it for, beside what the parts say

    @property
    def uses(self) -> frozenset[Use]:
        """Its uses."""
        found: set[Use] = {*self.builtin}
        if self.library or self.module:
            found.add("user-compiled")
        if self.packaged:
            found.add("fallback library" if self.packaged.makes == "library" else "fallback module")
        return frozenset(found)
