"""The result of lowering an object's kernels, for any compiler: the request for their index, and its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuforge.package.contents import CompiledBy, CompiledLibrary, CompiledModule, LibrarySet, ModuleSet
from gpuforge.plan.action import Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.plan.requests.kernels import IndexLibraries, IndexModules, LayKernels, LockedPackage

KERNELS = Path("${out:kernels}")


@dataclass(frozen=True, slots=True)
class KernelsStep:
    """The request for an object's kernels; `inputs` are the compiled files that it reads beside the sources."""

    request: LayKernels
    inputs: Mapping[str, Input]


def library_index(
    cell: Cell,
    item: LoweredObject,
    made_by: CompiledBy,
    libraries: Iterable[CompiledLibrary],
    *,
    package: LockedPackage | None = None,
) -> IndexLibraries:
    """Return the index of a fallback's libraries."""
    made = LibrarySet(
        name=item.name,
        toolkit=cell.toolkit,
        toolchain=made_by,
        libraries=tuple(libraries),
        abi=item.abi,
        packages=item.abi_packages,
        stands_in_for=item.stands_in_for,
        fallbacks=item.fallbacks,
    )
    return IndexLibraries(made=made, package=package, output=KERNELS)


def module_index(
    cell: Cell,
    item: LoweredObject,
    made_by: CompiledBy,
    modules: Iterable[CompiledModule],
    *,
    package: LockedPackage | None = None,
    install: str = "",
) -> IndexModules:
    """Return the index of a fallback's modules; `install` is the command that installs what runs them."""
    made = ModuleSet(
        name=item.name,
        toolkit=cell.toolkit,
        toolchain=made_by,
        modules=tuple(modules),
        stands_in_for=item.stands_in_for,
        cpu=item.cpu,
        install=install,
    )
    return IndexModules(made=made, package=package, output=KERNELS)
