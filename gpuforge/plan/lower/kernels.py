"""The kernels of one object, once per toolkit: compiled and indexed (fallback), or gathered (user-compiled)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.object import Object
from gpuforge.plan import source_files
from gpuforge.plan.action import ActionInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import command_library, library, modules, packaged_compiler, user_sources
from gpuforge.plan.lower.lowered import Lowered
from gpuforge.plan.lower.plan_context import PlanContext, kernels_name, of_kernels
from gpuforge.plan.supported import refuse_same_modules
from gpuforge.toolchains import registry


def kernels(context: PlanContext, cell: Cell) -> dict[str, ActionInput]:
    """Return the kernels of the objects that have some, for the toolkit of a cell, by the object's name."""
    objects = [item for item in context.file.manifest.objects if item.sources]
    return {item.name: _kernels(context, cell, item) for item in objects}


def _kernels(context: PlanContext, cell: Cell, item: Object) -> ActionInput:
    file, at = context.file, context.machine.kernels_at(cell.cuda)
    tree = source_files.object_sources(file, item)
    compiled = [str(source) for source in source_files.compiled(file, item)]
    refuse_same_modules(file, item, compiled)
    made = _way(file, item)(context, cell, item, compiled)
    return context.add_step(
        made.request,
        at,
        id=f"{kernels_name(context, cell)}/{item.name}",
        kind="package",
        title=f"{'index' if made.inputs else 'gather'} {item.name}"
        + (f" for CUDA {cell.toolkit}" if cell.cuda else ""),
        inputs={"sources": tree, **made.inputs},
        outputs=("kernels",),
        cells=context.users(cuda=cell.cuda, part=of_kernels),
    )


def _way(file: ManifestFile, item: Object) -> Callable[[PlanContext, Cell, Object, Sequence[str]], Lowered]:
    """Return what lowers an object: by where its compiler is, then by what it makes."""
    if item.role == "user-compiled":
        return user_sources.lower
    toolchain = registry.toolchain(file.manifest.toolchains[item.toolchain or ""].compiler)
    if toolchain.packaged:
        return packaged_compiler.lower
    if toolchain.by_command:
        return command_library.lower
    if item.kind == "module":
        return modules.lower
    return library.by_nvcc if toolchain.of_toolkit else library.by_host
