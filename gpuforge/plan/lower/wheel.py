"""The finished wheel of a cell, and its variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from gpuforge.cpython import CPython
from gpuforge.cuda.linkage import Linkage
from gpuforge.manifest.model import Manifest
from gpuforge.plan import build_record, recipe, variant
from gpuforge.plan.action import ActionInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import build_environment
from gpuforge.plan.lower.carried import carried
from gpuforge.plan.lower.host_build import LIBRARIES
from gpuforge.plan.lower.plan_context import PlanContext, placeholders
from gpuforge.plan.lower.toolkit import toolkit
from gpuforge.plan.narrow import having
from gpuforge.plan.requests.wheel import PackageKernelsWheel, PackageWheel, VariantWheel
from gpuforge.plan.site import Location

SEARCH_PATH = (Path("${in:toolkit}/lib64"), Path("${in:toolkit}/lib"))


def finished_wheel(
    context: PlanContext,
    cell: Cell,
    host: ActionInput,
    kernels: Sequence[ActionInput],
    provided: ActionInput | None,
) -> ActionInput:
    """Make the wheel, reproducibly: add kernels and runtime, repair it, name it, declare its requirements."""
    at = context.machine.at(cell)
    host_at, _ = context.machine.host_at(cell)
    of_overlay = context.file.manifest.build.overlay
    return add_wheel(
        context,
        at,
        _request(context, cell, kernels, provided),
        id=f"{cell.id}/wheel",
        title=f"repair and name the wheel of {cell.id}",
        inputs={
            "wheel": host,
            **({LIBRARIES: ActionInput(host.action, LIBRARIES)} if of_overlay else {}),
            **({"toolkit": toolkit(context, cell, at)} if cell.cuda else {}),
            "requirements": build_environment.lock(context, cell, host_at),
            "carried": carried(context, cell),
            **({"provided": provided} if provided else {}),
            **numbered(kernels),
        },
        cells=(cell.id,),
    )


def _request(
    context: PlanContext, cell: Cell, kernels: Sequence[ActionInput], provided: ActionInput | None
) -> PackageWheel:
    file, manifest = context.file, context.file.manifest
    at = context.machine.at(cell)
    _, host_compiler = context.machine.host_at(cell)
    of_nvcc = context.machine.kernels_at(cell.cuda).hosts[cell.cuda]
    found = at.toolkits.get(cell.cuda)
    version = (file.whole or manifest).cuda.versions.get(cell.cuda)
    return PackageWheel(
        wheel=Path("${in:wheel}"),
        name=manifest.package.name,
        package=manifest.package.import_,
        cuda=cell.toolkit,
        requires=manifest.cuda.requires,
        naming="plain" if cell.naming == "variant" else cell.naming,
        narrowed=tuple(arch.number for arch in having(version, file.narrowed)) if version else (),
        axes=tuple(f"{name}{value}" for name, value in cell.axes),
        python=python_tag(cell),
        abi=manifest.package.abi,
        c_header=manifest.package.c_header,
        pins=found.packages if found else {},
        pins_file=Path("${in:toolkit}", found.packages_file) if found and found.packages_file else None,
        exclude=tuple(manifest.wheel.exclude),
        search_path=SEARCH_PATH if found else (),
        libraries=Path(f"${{in:{LIBRARIES}}}") if manifest.build.overlay else None,
        provided=Path("${in:provided}") if provided else None,
        carried=Path("${in:carried}"),
        more_requires=manifest.wheel.requires,
        record=build_record.of(file, at, cell, host_compiler, of_nvcc),
        requirements=Path("${in:requirements}"),
        extras=recipe.extras(file, cell.toolkit),
        **shared_fields(manifest, kernels),
    )


class _SharedFields(TypedDict):
    kernels: tuple[Path, ...]
    linkage: Linkage
    size_limit: int | None
    work: Path
    output: Path
    declared: Path


def shared_fields(manifest: Manifest, kernels: Sequence[ActionInput]) -> _SharedFields:
    """Return the fields that the requests for wheels share: kernels, linkage, size limit, places of files."""
    return {
        "kernels": placeholders(numbered(kernels)),
        "linkage": manifest.cuda.linkage,
        "size_limit": manifest.wheel.size_limit_bytes,
        "work": Path("${work}"),
        "output": Path("${out:wheel}"),
        "declared": Path("${out:declared}"),
    }


def add_wheel(
    context: PlanContext,
    at: Location,
    request: PackageWheel | PackageKernelsWheel,
    *,
    id: str,  # noqa: A002  the field of Action
    title: str,
    inputs: Mapping[str, Input],
    cells: tuple[str, ...],
) -> ActionInput:
    """Add the action that makes a wheel and, beside it, a wheel of its metadata alone."""
    return context.add_step(
        request,
        at,
        id=id,
        kind="package",
        title=title,
        inputs=inputs,
        outputs=("wheel", "declared"),
        by_content=True,
        cells=cells,
    )


def make_variant(context: PlanContext, cell: Cell, wheel: ActionInput, report: ActionInput) -> ActionInput:
    """Make the variant wheel from the audited one: few tools can read the names of variants yet."""
    cuda_version = context.file.manifest.cuda.versions[cell.cuda]
    return context.add_step(
        VariantWheel(
            wheel=Path("${in:wheel}"),
            cuda=cell.toolkit,
            gpus=variant.gpus(cuda_version.targets),
            output=Path("${out:wheel}"),
        ),
        context.machine.at(cell),
        id=f"{cell.id}/variant",
        kind="package",
        title=f"make the variant wheel of {cell.id}",
        inputs={"wheel": wheel, "report": report},
        outputs=("wheel",),
        by_content=True,
        cells=(cell.id,),
    )


def numbered(kernels: Sequence[ActionInput]) -> dict[str, ActionInput]:
    """Return the kernels as inputs: kernels0, kernels1 …"""
    return {f"kernels{number}": value for number, value in enumerate(kernels)}


def python_tag(cell: Cell) -> str | None:
    """Return the Python tag that a cell's wheel must have: "cp311"; None where it serves every Python."""
    return None if cell.python == "3" else CPython.parse(cell.python).tag
