"""The action that makes a fallback library by a command: in the build environment, with the host compiler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.object import Object
from gpuforge.plan import abi, advice, recipe, sources, variables
from gpuforge.plan.action import Action, ActionInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.compiler_call import fill
from gpuforge.plan.lower import compiler as lower_compiler
from gpuforge.plan.site import Location, Machine

_RUNTIME = Path(__file__).resolve().parents[2] / "runtime"
_OF_RUNTIME = ("abi.c", "abi_id.py", "elf.py", "document.py")


class Lowering(lower_compiler.Lowering, Protocol):
    """What the lowering of a whole manifest gives to that of its commands."""

    file: ManifestFile
    machine: Machine

    def users(self, *, cuda: str | None = None, python: str | None = None) -> tuple[str, ...]:
        """Return the ids of the cells that share something of one toolkit."""

    def requirements(self, cell: Cell, at: Location) -> ActionInput:
        """Fetch the build requirements of a cell's Python into an environment."""

    def python(self, cell: Cell, at: Location) -> Input:
        """Return a cell's interpreter as an input."""

    def itself(self, program: str, at: Location) -> Input:
        """Return gpuforge's own step as an input."""


def run_command(lowering: Lowering, cell: Cell, item: Object, compiled: Sequence[str]) -> ActionInput:
    """Run an object's command where the host code is built, with the environment of the cell's Python.

    The library has nothing of that Python, so one serves the wheels of all. Its compiler is the host's, by CC and CXX.
    """
    file = lowering.file
    at, host = lowering.machine.host_at(cell)
    used = lower_compiler.use(lowering, host, at, lay=False)
    toolchain = file.manifest.toolchains[item.toolchain or ""]
    made = recipe.call(toolchain, item, compiled)
    assert made is not None  # noqa: S101  a command always makes a library
    paths = {
        "include": ["${stage:sources}"],
        "sources": [f"${{stage:sources}}/{name}" for name in compiled],
        "abi": ["${work}/gpuforge_abi.c"],
        "output": ["${work}/library.so"],
    }
    spec = {
        "name": item.name,
        "argv": fill(made.argv, paths),
        "product": toolchain.product or "",
        "made": "${work}/library.so",
        "abi": abi.identity(file, item),
        "packages": abi.packages(file, item),
        "abi_file": "${work}/gpuforge_abi.c",
        "runtime": "${stage:runtime}",
        "environment": "${lay:env}",
        "python": "${in:python}",
        "scratch": "${work}",
        "output": "${out:library}",
    }
    action = Action(
        id=f"cu{cell.toolkit}/kernels/{item.name}/library",
        kind="compile",
        title=f"make {item.name} by {made.argv[0]} with {host.family} {host.version}",
        advice=advice.of_compile(file, item),
        argv=lowering.step("command_library", spec=spec),
        inputs={
            "gpuforge": lowering.itself("command_library", at),
            "sources": sources.object_sources(file, item),
            "runtime": sources.files(_RUNTIME, [_RUNTIME / name for name in _OF_RUNTIME]),
            "env": lowering.requirements(cell, at),
            "python": lowering.python(cell, at),
            **used.inputs,
        },
        outputs=("library",),
        env=variables.plain()
        | {"PATH": at.path}
        | {name.upper(): program for name, program in used.programs.items()},
        image=at.image_id,
        cells=lowering.users(cuda=cell.cuda),
    )
    return ActionInput(lowering.add(action), "library")


def described(lowering: Lowering, cell: Cell, item: Object) -> dict[str, Any]:
    """Return what the index says of a library that a command made, for the step that writes it."""
    program = lowering.file.manifest.toolchains[item.toolchain or ""].command[0]
    _, host = lowering.machine.host_at(cell)
    return {
        "toolchain": {"family": f"{program} and {host.family}", "version": str(host.version)},
        "libraries": [{"path": "${in:library}", "cpu": ""}],
        "abi": abi.identity(lowering.file, item),
        "packages": abi.packages(lowering.file, item),
        "stands_in_for": item.stands_in_for or "",
        "fallbacks": abi.fallbacks_of(lowering.file, item),
    }
