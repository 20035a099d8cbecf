"""A toolchain for users' machines, as in the recipe of a wheel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
