"""Kernels in wheels of their own: the package's wheel, once for all CUDA versions, and the kernels wheels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuforge.embedded.major_wheels import KernelsWheel, KernelsWheelSet
from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.model import Manifest
from gpuforge.plan import build_record, recipe
from gpuforge.plan.action import ActionInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import build_environment
from gpuforge.plan.lower.carried import carried
from gpuforge.plan.lower.plan_context import PlanContext
from gpuforge.plan.lower.toolkit import toolkit
from gpuforge.plan.lower.wheel import SEARCH_PATH, add_wheel, numbered, python_tag, shared_fields
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.plan.requests.wheel import PackageKernelsWheel, PackageWheel
from gpuforge.toolchain_names import needs_cuda


def first_of(context: PlanContext, cell: Cell) -> Cell:
    """Return the first chosen cell of the same Python, whose kernels stand for those of all CUDA versions."""
    return next(each for each in context.cells if each.python == cell.python)


def host_wheel(
    context: PlanContext, cell: Cell, host: ActionInput, kernels: Sequence[ActionInput]
) -> ActionInput:
    """Make the package's own wheel, with an extra for each kernels wheel of the manifest; once per Python."""
    file, manifest = context.file, context.file.manifest
    at, compiler = context.machine.host_at(cell)
    newest = kernels_wheels.toolkits(manifest)
    request = PackageWheel(
        wheel=Path("${in:wheel}"),
        name=manifest.package.name,
        package=manifest.package.import_,
        cuda=newest[0],
        naming="plain",
        narrowed=tuple(arch.number for arch in file.narrowed),
        python=python_tag(cell),
        abi=manifest.package.abi,
        c_header=manifest.package.c_header,
        kernels_wheels=tuple(_described(manifest, version) for version in newest),
        sets=_sets(context),
        carried=Path("${in:carried}"),
        more_requires=manifest.wheel.requires,
        record=build_record.of_host(file, cell, compiler),
        requirements=Path("${in:requirements}"),
        # NVRTC is for one CUDA major and this wheel for all, so the runtime names the package that fits the driver.
        extras={k: v for k, v in recipe.extras(file, newest[0]).items() if not needs_cuda(k)},
        **shared_fields(manifest, kernels),
    )
    return add_wheel(
        context,
        at,
        request,
        id=f"{_name_of_host(context, cell)}/wheel",
        title=f"repair and name the wheel of {manifest.package.name} for Python {cell.python}",
        inputs={
            "wheel": host,
            "requirements": build_environment.lock(context, cell, at),
            "carried": carried(context, cell),
            **numbered(kernels),
        },
        cells=context.users(python=cell.python),
    )


def kernels_wheel(context: PlanContext, cell: Cell, kernels: Sequence[ActionInput]) -> ActionInput:
    """Make the kernels wheel of one toolkit; it serves every Python."""
    file, manifest = context.file, context.file.manifest
    at = context.machine.kernels_at(cell.cuda)
    found = at.toolkits[cell.cuda]
    first = next(each for each in context.cells if each.cuda == cell.cuda)
    request = PackageKernelsWheel(
        of=Path("${in:of}"),
        kernels_wheel=_described(manifest, cell.toolkit),
        sets=_sets(context),
        cuda=cell.toolkit,
        machine=cell.machine,
        pins=found.packages,
        pins_file=Path("${in:toolkit}", found.packages_file) if found.packages_file else None,
        search_path=SEARCH_PATH,
        record=build_record.of_kernels(file, at, cell, at.hosts[cell.cuda]),
        **shared_fields(manifest, kernels),
    )
    return add_wheel(
        context,
        at,
        request,
        id=f"cu{cell.toolkit}/kernels-wheel",
        title=f"make {kernels_wheels.distribution(manifest, cell.toolkit)}",
        inputs={
            "of": ActionInput(f"{_name_of_host(context, first)}/wheel", "declared"),
            "toolkit": toolkit(context, cell, at),
            **numbered(kernels),
        },
        cells=context.users(cuda=cell.cuda),
    )


def _described(manifest: Manifest, toolkit: str) -> KernelsWheel:
    return KernelsWheel(
        kernels_wheels.distribution(manifest, toolkit),
        kernels_wheels.folder(manifest, toolkit),
        kernels_wheels.extra_for(toolkit),
    )


def _sets(context: PlanContext) -> tuple[KernelsWheelSet, ...]:
    """Return the kernel sets of the kernels wheels, with the interface that the package's code relies on."""
    return tuple(
        KernelsWheelSet(item.name, item.kind, _interface(item), item.stands_in_for, item.cpu)
        for item in context.objects
        if item.in_kernels_wheel
    )


def _interface(item: LoweredObject) -> str:
    """Return what a kernel set and the package must share: the ABI id of a library, or the sources of modules."""
    return (item.abi if item.kind == "library" else "") or item.files.digest[:16]


def _name_of_host(context: PlanContext, cell: Cell) -> str:
    at, _ = context.machine.host_at(cell)
    return build_environment.python_name(context, cell, at)
