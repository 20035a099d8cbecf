"""Programs that actions call: host compilers, installed or fetched, and interpreters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

from gpuforge.plan import variables
from gpuforge.plan.action import (
    ActionInput,
    FileInput,
    Handle,
    ImageInput,
    Input,
    Laid,
    P,
    Program,
    Step,
    Workdir,
)
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext
from gpuforge.plan.site import Location
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits.compilers import FetchedCompiler
from gpuforge.toolkits.debian_parts import DebianPart


@dataclass(frozen=True, kw_only=True)
class FetchCompiler(Step[P]):
    """Unpack a compiler from Debian's packages."""

    links_out: ClassVar = True  # libstdc++.so -> /usr/lib/…, which is installed
    parts: tuple[DebianPart, ...]

    def run(self: FetchCompiler[Path], at: Workdir) -> None:
        """Make the compiler's folder."""
        from functools import partial

        from gpuforge.toolkits.compilers import provision_compiler

        provision_compiler(self.parts, at.output("compiler"), say=partial(print, flush=True))


@dataclass(frozen=True, kw_only=True)
class CompilingStep(Step[P]):
    """A step that calls the host compiler: `cxx` and, if it has one, `cc`, or a fetched compiler's folder `host`.

    `names` says how a build calls each of the two ("cxx": "g++"), `programs` where they lie in `host`.
    """

    cxx: P | None = None
    cc: P | None = None
    host: P | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)

    def compilers(self: CompilingStep[Path]) -> dict[str, Path]:
        """Return the path of each, by "cxx" and "cc"."""
        if self.host:
            return {what: self.host / path for what, path in self.programs.items()}
        return {what: path for what, path in (("cxx", self.cxx), ("cc", self.cc)) if path}


def of_step(context: PlanContext, host: Compiler, at: Location, *, lay: bool = False) -> dict[str, Any]:
    """Return the fields of a `CompilingStep` for a compiler of a place.

    With `lay`, a fetched compiler has the same path on every machine: compiled files may contain paths of its headers.
    """
    names = variables.compilers(host)
    paths = {"cxx": host.path, "cc": host.c_path or host.path}
    if isinstance(host, FetchedCompiler):
        fetched = fetch(context, host)
        programs = {what: str(paths[what]) for what in names}
        return {"names": names, "programs": programs, "host": Laid(fetched) if lay else fetched}
    return {"names": names, **{what: program(paths[what], host.identity, at, "compiler") for what in names}}


class CompilerUse(NamedTuple):
    """A compiler as a command line uses it: its inputs, and how the command names "cxx" and "cc"."""

    inputs: Mapping[str, Input]
    programs: Mapping[str, str]


def use(context: PlanContext, host: Compiler, at: Location) -> CompilerUse:
    """Return how a command line calls a compiler of a place."""
    found = of_step(context, host, at)
    if "host" in found:
        programs = {name: f"${{in:host}}/{path}" for name, path in found["programs"].items()}
        return CompilerUse({"host": found["host"]}, programs)
    names = found["names"]
    return CompilerUse({name: found[name] for name in names}, {name: f"${{in:{name}}}" for name in names})


def fetch(context: PlanContext, host: FetchedCompiler) -> ActionInput:
    """Fetch a compiler, once for all that use it."""
    return context.add_step(
        FetchCompiler[Handle](parts=host.parts),
        None,
        id=f"{host.path.name}/compiler",
        kind="fetch",
        title=f"fetch {host.family} {host.version} from Debian {host.suite} ({host.size / 1e6:.0f} MB)",
        outputs=("compiler",),
        env=variables.fetch(),
        passes=variables.fetch_passes(context.environ),
    )


def interpreter(cell: Cell, at: Location) -> Input:
    """Return a cell's Python as an input."""
    found = at.interpreters[cell.python]
    return program(found.path, found.identity, at, "interpreter")


def program(path: Path, identity: str, at: Location, kind: Program) -> Input:
    """Return a program of a place as an input."""
    if at.image:
        return ImageInput(PurePosixPath(path), identity)
    return FileInput(path, identity, program=kind)
