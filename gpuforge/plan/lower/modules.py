"""The modules of a fallback: each source compiled by nvcc into one fatbin, for every architecture of a toolkit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gpuforge.manifest.model.object import Object
from gpuforge.plan import advice, source_files, variables
from gpuforge.plan.action import Action, ActionInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import compiler
from gpuforge.plan.lower.lowered import Lowered, module_index
from gpuforge.plan.lower.plan_context import PlanContext, kernels_name, of_kernels
from gpuforge.plan.lower.toolkit import toolkit
from gpuforge.plan.requests.kernels import CompiledModule, KernelCompiler
from gpuforge.toolchains import nvcc


def lower(context: PlanContext, cell: Cell, item: Object, compiled: Sequence[str]) -> Lowered:
    """Compile each source by itself."""
    made = {f"module{n}": _compile(context, cell, item, source) for n, source in enumerate(compiled)}
    made_by = KernelCompiler(nvcc.NVCC.name, context.machine.kernels_at(cell.cuda).toolkits[cell.cuda].nvcc)
    modules = [
        CompiledModule(
            PurePosixPath(source).stem, source, Path("${in:sources}", source), Path(f"${{in:{name}}}")
        )
        for source, name in zip(compiled, made, strict=True)
    ]
    return Lowered(module_index(context, cell, item, made_by, modules), made)


def _compile(context: PlanContext, cell: Cell, item: Object, source: str) -> ActionInput:
    """Compile one source of a fallback object for every architecture of its toolkit into one fatbin."""
    file, at = context.file, context.machine.kernels_at(cell.cuda)
    targets = file.manifest.cuda.versions[cell.cuda].targets
    host = compiler.use(context, at.hosts[cell.cuda], at, lay=False)
    action = Action(
        id=f"{kernels_name(context, cell)}/{item.name}/{source}",
        kind="compile",
        title=f"compile {source} with nvcc {cell.toolkit} for {nvcc.images(targets)}",
        advice=advice.of_compile(file, item),
        argv=nvcc.module_argv(
            "${in:toolkit}/bin/nvcc",
            source=f"${{stage:sources}}/{source}",
            output="${out:fatbin}",
            targets=targets,
            host=host.programs["cxx"],
            includes=("${stage:sources}",),
            flags=(*file.manifest.toolchains[item.toolchain or ""].flags, *item.flags),
        ),
        inputs={
            "sources": source_files.one_source(file, item, source),
            "toolkit": toolkit(context, cell, at),
            **host.inputs,
        },
        outputs=("fatbin",),
        env=variables.plain() | {"PATH": at.path},
        image=at.image_id,
        cells=context.users(cuda=cell.cuda, part=of_kernels),
    )
    return context.add(action, "fatbin")
