"""What an object's kernels are lowered to, however they are compiled: the request for their index, and its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpuforge.manifest.model.object import Object
from gpuforge.plan import abi
from gpuforge.plan.action import Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower.context import Context
from gpuforge.plan.requests.kernels import CompiledBy, CompiledLibrary, CompiledModule, KernelIndex


@dataclass(frozen=True, slots=True)
class Lowered:
    """The index of an object's kernels; `inputs` are what it reads beside the sources: what was compiled."""

    index: KernelIndex
    inputs: Mapping[str, Input]


def library_index(
    context: Context, cell: Cell, item: Object, made_by: CompiledBy, libraries: Iterable[CompiledLibrary]
) -> KernelIndex:
    """Return the index of a fallback's libraries."""
    return replace(
        _index(cell, item, made_by),
        libraries=tuple(libraries),
        abi=abi.identity(context.file, item),
        fallbacks=tuple(abi.fallbacks_of(context.file, item)),
    )


def module_index(
    context: Context,
    cell: Cell,
    item: Object,
    made_by: CompiledBy,
    modules: Iterable[CompiledModule],
    *,
    install: str = "",
) -> KernelIndex:
    """Return the index of a fallback's modules; `install` is how a user gets what runs them."""
    cpu = abi.cpu_of(context.file, item)
    return replace(_index(cell, item, made_by), modules=tuple(modules), cpu=cpu, install=install)


def _index(cell: Cell, item: Object, made_by: CompiledBy) -> KernelIndex:
    return KernelIndex(
        name=item.name,
        role="fallback",
        toolkit=cell.toolkit,
        toolchain=made_by,
        stands_in_for=item.stands_in_for or "",
        output=Path("${out:kernels}"),
    )
