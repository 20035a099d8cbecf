"""The sources of an object that users' machines compile, with a recipe for each compiler that can compile them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpuforge.manifest import kernels_wheels
from gpuforge.package.contents import SourceSet
from gpuforge.plan import recipe
from gpuforge.plan.cell import Cell
from gpuforge.plan.literal import literal
from gpuforge.plan.lower.kernels_step import KERNELS, KernelsStep
from gpuforge.plan.lower.plan_context import PlanContext
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.plan.requests.kernels import GatherSources


def lower(context: PlanContext, cell: Cell, item: LoweredObject) -> KernelsStep:
    """Gather the sources: nothing is compiled here."""
    file = context.file
    toolkit = recipe_for = cell.toolkit
    targets = file.manifest.cuda.versions[cell.cuda].targets if cell.cuda else ()
    if kernels_wheels.is_split(file.manifest):  # the wheel that they go into is for all CUDA versions
        toolkit, targets = "", ()
        recipe_for = kernels_wheels.toolkits(file.manifest)[0]
    gathered = SourceSet(
        name=item.name,
        toolkit=toolkit,
        archs=tuple(target.arch.number for target in targets if target.real),
        sources=_places(item.sources),
        includes=_places(name for name, _ in item.files.parts if name not in item.sources),
        toolchains=recipe.toolchains(file, item, recipe_for),
        abi=item.abi,
        packages=item.abi_packages,
        kind=item.kind,
        fallbacks=item.fallbacks,
        cpu=item.cpu,
    )
    return KernelsStep(GatherSources(gathered=gathered, output=KERNELS), {})


def _places(names: Iterable[str]) -> dict[str, Path]:
    return {name: Path("${in:sources}", literal(name)) for name in names}
