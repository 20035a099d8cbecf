"""Compilers: the families that they belong to, and a compiler found on this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version


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
    install: Mapping[str, str] = field(
        default_factory=dict
    )  # by a distribution's ID in /etc/os-release; "": others
    offload: str = ""  # the target that GCC must have an offload compiler for: "nvptx-none"
    makes: str = "library"  # or "module": each source becomes a file that is loaded by name


@dataclass(frozen=True, slots=True)
class Family:
    """The differences between compiler families, as data; each family has its own module."""

    name: str
    programs: re.Pattern[str]  # its file names; group "version" follows the plain name
    parse: Callable[
        [str], tuple[Version, str] | None
    ]  # --version output -> version, identity; None for other families
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
