"""The result of lowering an object's kernels, for any compiler: the request for their index, and its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuforge.plan.action import Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.plan.requests.kernels import (
    CompiledLibrary,
    CompiledModule,
    IndexLibraries,
    IndexModules,
    KernelCompiler,
    LayKernels,
)

KERNELS = Path("${out:kernels}")


@dataclass(frozen=True, slots=True)
class KernelsStep:
    """The request for an object's kernels; `inputs` are the compiled files that it reads beside the sources."""

    request: LayKernels
    inputs: Mapping[str, Input]


def library_index(
    cell: Cell,
    item: LoweredObject,
    made_by: KernelCompiler,
    libraries: Iterable[CompiledLibrary],
) -> IndexLibraries:
    """Return the index of a fallback's libraries."""
    return IndexLibraries(
        name=item.name,
        toolkit=cell.toolkit,
        toolchain=made_by,
        libraries=tuple(libraries),
        abi=item.abi,
        packages=item.abi_packages,
        stands_in_for=item.stands_in_for,
        fallbacks=item.fallbacks,
        output=KERNELS,
    )


def module_index(
    cell: Cell,
    item: LoweredObject,
    made_by: KernelCompiler,
    modules: Iterable[CompiledModule],
    *,
    install: str = "",
) -> IndexModules:
    """Return the index of a fallback's modules; `install` is the command that installs what runs them."""
    return IndexModules(
        name=item.name,
        toolkit=cell.toolkit,
        toolchain=made_by,
        modules=tuple(modules),
        stands_in_for=item.stands_in_for,
        cpu=item.cpu,
        install=install,
        output=KERNELS,
    )
