"""The modules of a fallback: each source compiled by nvcc into one fatbin, for every architecture of a toolkit."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from gpuforge.package.contents import CompiledBy, CompiledModule
from gpuforge.plan import advice, variables
from gpuforge.plan.action import Action, ActionInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.literal import literal, literals
from gpuforge.plan.lower import compiler
from gpuforge.plan.lower.kernels_step import KernelsStep, module_index
from gpuforge.plan.lower.plan_context import PlanContext, kernels_name, of_kernels
from gpuforge.plan.lower.toolkit import toolkit
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.toolchains import nvcc


def lower(context: PlanContext, cell: Cell, item: LoweredObject) -> KernelsStep:
    """Compile each source by itself."""
    made = {f"module{n}": _compile(context, cell, item, source) for n, source in enumerate(item.sources)}
    made_by = CompiledBy(nvcc.NVCC.name, context.machine.kernels_at(cell.cuda).toolkits[cell.cuda].nvcc)
    modules = [
        CompiledModule(
            PurePosixPath(source).stem,
            source,
            Path("${in:sources}", literal(source)),
            Path(f"${{in:{name}}}"),
        )
        for source, name in zip(item.sources, made, strict=True)
    ]
    return KernelsStep(module_index(cell, item, made_by, modules), made)


def _compile(context: PlanContext, cell: Cell, item: LoweredObject, source: str) -> ActionInput:
    """Compile one source of a fallback object for every architecture of its toolkit into one fatbin."""
    at = context.machine.kernels_at(cell.cuda)
    targets = context.file.manifest.cuda.versions[cell.cuda].targets
    host = compiler.use(context, at.hosts[cell.cuda], at, lay=False)
    action = Action(
        id=f"{kernels_name(context, cell)}/{item.name}/{source}",
        kind="compile",
        title=f"compile {source} with nvcc {cell.toolkit} for {nvcc.images(targets)}",
        advice=advice.of_compile(context.file, item.number),
        argv=nvcc.module_argv(
            "${in:toolkit}/bin/nvcc",
            source=f"${{stage:sources}}/{literal(source)}",
            output="${out:fatbin}",
            targets=targets,
            host=host.programs["cxx"],
            includes=("${stage:sources}",),
            flags=literals((*item.toolchain.flags, *item.flags)),
        ),
        inputs={
            "sources": item.files_for(source),
            "toolkit": toolkit(context, cell, at),
            **host.inputs,
        },
        staged=("sources",),
        outputs=("fatbin",),
        env=variables.plain(context.environ) | {"PATH": at.path},
        image=at.image_id,
        cells=context.users(cuda=cell.cuda, part=of_kernels),
    )
    return context.add(action, "fatbin")
