"""The sources of an object that users' machines compile, with the recipes of the compilers that can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.model.object import Object
from gpuforge.plan import abi, recipe, source_files
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower.lowered import KERNELS, Lowered
from gpuforge.plan.lower.plan_context import PlanContext
from gpuforge.plan.requests.kernels import GatherSources, UserSource


def lower(context: PlanContext, cell: Cell, item: Object, compiled: Sequence[str]) -> Lowered:
    """Gather the sources: nothing is compiled here."""
    members = source_files.object_sources(context.file, item).members or ()
    included = sorted({*members} - {*compiled})
    return Lowered(_index(context, cell, item, compiled, included), {})


def _index(
    context: PlanContext, cell: Cell, item: Object, compiled: Sequence[str], included: Sequence[str]
) -> GatherSources:
    """Return the recipe of an object that the user's machine compiles."""
    file = context.file
    targets = file.manifest.cuda.versions[cell.cuda].targets if cell.cuda else ()
    found = GatherSources(
        name=item.name,
        toolkit=cell.toolkit,
        archs=tuple(target.arch.number for target in targets if target.real),
        sources=tuple(UserSource(name, Path("${in:sources}", name)) for name in compiled),
        includes=tuple(UserSource(name, Path("${in:sources}", name)) for name in included),
        abi=abi.identity(file, item),
        packages=abi.packages(file, item),
        kind=item.kind,
        fallbacks=tuple(abi.fallbacks_of(file, item)),
        cpu=abi.cpu_of(file, item),
        output=KERNELS,
    )
    newest = cell.toolkit
    if kernels_wheels.is_split(file.manifest):  # the wheel that they go into is for all CUDA versions
        newest = kernels_wheels.toolkits(file.manifest)[0]
        found = replace(found, toolkit="", archs=())
    return replace(found, toolchains=recipe.toolchains(file, item, compiled, newest))
