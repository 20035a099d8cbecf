"""The action that makes a fallback library by a command: in the build environment, with the host compiler."""

from __future__ import annotations

from pathlib import Path

from gpuforge.cuda.kernels import KernelImage
from gpuforge.package import contents
from gpuforge.package.contents import CompiledBy, CompiledLibrary
from gpuforge.plan import advice, recipe, source_files, variables
from gpuforge.plan.action import ActionInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.literal import literal, literals
from gpuforge.plan.lower import compiler
from gpuforge.plan.lower.build_environment import build_environment
from gpuforge.plan.lower.kernels_step import KernelsStep, library_index
from gpuforge.plan.lower.plan_context import PlanContext, kernels_name, of_kernels
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.plan.requests.command_library import CommandLibrary
from gpuforge.plan.requests.kernels import IndexLibraries
from gpuforge.runtime.cpu_level import CpuLevel
from gpuforge.runtime.placeholders import fill


def lower(context: PlanContext, cell: Cell, item: LoweredObject) -> KernelsStep:
    """Make a fallback's library by the manifest's command."""
    library = _run_command(context, cell, item)
    return KernelsStep(_index(context, cell, item), {"library": library})


def _run_command(context: PlanContext, cell: Cell, item: LoweredObject) -> ActionInput:
    """Run an object's command where the host code is built, with the environment of the cell's Python.

    The library does not depend on that Python: one serves all wheels. Its compiler is the host compiler, by CC and CXX.
    """
    at, host = context.machine.host_at(cell)
    used = compiler.use(context, host, at, lay=False)
    made = recipe.call(item.toolchain, item, item.sources)
    assert made is not None  # noqa: S101  a command always makes a library
    paths = {
        "include": ["${stage:sources}"],
        "sources": [f"${{stage:sources}}/{literal(name)}" for name in item.sources],
        "abi": ["${work}/gpuforge_abi.c"],
        "output": ["${work}/library.so"],
        **{name: [] for name in ("arch", "cuda", "folders")},  # a command of the build has none
    }
    request = CommandLibrary(
        name=item.name,
        argv=tuple(fill(literals(made.argv), paths)),
        product=item.toolchain.product or "",
        made=Path("${work}/library.so"),
        abi=item.abi,
        packages=item.abi_packages,
        abi_file=Path("${work}/gpuforge_abi.c"),
        runtime=Path("${stage:runtime}"),
        environment=Path("${lay:env}"),
        python=Path("${in:python}"),
        scratch=Path("${work}"),
        output=Path("${out:library}"),
    )
    return context.add_request(
        request,
        at,
        id=f"{kernels_name(context, cell)}/{item.name}/library",
        kind="compile",
        title=f"make {item.name} by {made.argv[0]} with {host.family} {host.version}",
        advice=advice.of_compile(context.file, item.number),
        inputs={
            "sources": item.files,
            "runtime": source_files.files(contents.FOLDER, contents.ABI, context.contents),
            "env": build_environment(context, cell, at),
            "python": compiler.interpreter(cell, at),
            **used.inputs,
        },
        staged=("sources", "runtime"),
        laid=("env",),
        outputs=("library",),
        by_content=True,
        env=variables.plain(context.environ)
        | {name.upper(): program for name, program in used.programs.items()},
        cells=context.users(cuda=cell.cuda, part=of_kernels),
    )


def _index(context: PlanContext, cell: Cell, item: LoweredObject) -> IndexLibraries:
    program = item.toolchain.command[0]
    _, host = context.machine.host_at(cell)
    made_by = CompiledBy(f"{program} and {host.family}", str(host.version))
    made = [CompiledLibrary(Path("${in:library}"), (KernelImage("library", CpuLevel()),))]
    return library_index(cell, item, made_by, made)
