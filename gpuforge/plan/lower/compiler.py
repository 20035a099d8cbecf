"""Programs that actions call: host compilers, installed or fetched, and interpreters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpuforge.plan import variables
from gpuforge.plan.action import ActionInput, FileInput, ImageInput, Input, Program
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower.plan_context import PlanContext
from gpuforge.plan.requests.compiler import FetchCompiler
from gpuforge.plan.site import Location
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits.compilers import FetchedCompiler


@dataclass(frozen=True, slots=True)
class CompilerUse:
    """A compiler as an action uses it: its inputs, those that are `laid`, and how commands name "cxx" and "cc"."""

    inputs: Mapping[str, Input]
    programs: Mapping[str, str]
    laid: tuple[str, ...] = ()


def use(context: PlanContext, host: Compiler, at: Location, *, lay: bool) -> CompilerUse:
    """Return how an action calls a compiler of a place.

    With `lay`, a fetched compiler has the same path on every machine: compiled files may contain paths of its headers.
    """
    names = variables.compilers(host)
    paths = {"cxx": host.path, "cc": host.c_path or host.path}
    if isinstance(host, FetchedCompiler):
        where = "${lay:host}" if lay else "${in:host}"
        programs = {name: f"{where}/{paths[name]}" for name in names}
        return CompilerUse({"host": fetch(context, host)}, programs, ("host",) if lay else ())
    inputs = {name: program(paths[name], host.identity, at, "compiler") for name in names}
    return CompilerUse(inputs, {name: f"${{in:{name}}}" for name in names})


def fetch(context: PlanContext, host: FetchedCompiler) -> ActionInput:
    """Fetch a compiler, once for all that use it."""
    return context.add_request(
        FetchCompiler(parts=host.parts, output=Path("${out:compiler}")),
        None,
        id=f"{host.path.name}/compiler",
        kind="fetch",
        title=f"fetch {host.family} {host.version} from Debian {host.suite} ({host.size / 1e6:.0f} MB)",
        outputs=("compiler",),
        links_out=True,  # Debian's packages: libstdc++.so -> /usr/lib/…, which is installed
        env=variables.fetch(),
        passes=variables.fetch_passes(context.environ),
        network=True,
        cells=context.users_of(host),
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
