"""The kernels of one object, once per toolkit: compiled and indexed (fallback), or gathered (user-compiled)."""

from __future__ import annotations

from collections.abc import Callable

from gpuforge.plan.action import ActionInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import command_library, library, modules, packaged_compiler, user_sources
from gpuforge.plan.lower.kernels_step import KernelsStep
from gpuforge.plan.lower.plan_context import PlanContext, kernels_name, of_kernels
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.plan.supported import refuse_same_modules
from gpuforge.toolchains import registry


def kernels(context: PlanContext, cell: Cell) -> dict[str, ActionInput]:
    """Return the kernels of each object that has some, by its name, for the toolkit of a cell."""
    return {item.name: _kernels(context, cell, item) for item in context.objects}


def _kernels(context: PlanContext, cell: Cell, item: LoweredObject) -> ActionInput:
    at = context.machine.kernels_at(cell.cuda)
    refuse_same_modules(context.file, item)
    made = _way(item)(context, cell, item)
    return context.add_request(
        made.request,
        at,
        id=f"{kernels_name(context, cell)}/{item.name}",
        kind="package",
        title=f"{made.request.verb} {item.name}" + (f" for CUDA {cell.toolkit}" if cell.cuda else ""),
        inputs={"sources": item.files, **made.inputs},
        outputs=("kernels",),
        cells=context.users(cuda=cell.cuda, part=of_kernels),
    )


def _way(item: LoweredObject) -> Callable[[PlanContext, Cell, LoweredObject], KernelsStep]:
    """Return the function that lowers an object. It depends on where the compiler is, then on what it makes."""
    if item.role == "user-compiled":
        return user_sources.lower
    toolchain = registry.toolchain(item.toolchain.compiler)
    if toolchain.packaged:
        return packaged_compiler.lower
    if toolchain.by_command:
        return command_library.lower
    if item.kind == "module":
        return modules.lower
    return library.by_nvcc if toolchain.of_toolkit else library.by_host
