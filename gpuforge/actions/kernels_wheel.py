"""Kernels in wheels of their own: the package's wheel, once for all CUDA versions, and the kernels wheels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from gpuforge.actions import environment
from gpuforge.actions.carried import carried
from gpuforge.actions.toolkit import toolkit
from gpuforge.actions.wheel import REPAIRS, PackageWheel, add, python_tag, record_of_host, record_of_kernels
from gpuforge.cuda.choices import Linkage
from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.model import Manifest
from gpuforge.package.contents import KernelsWheel, KernelsWheelSet
from gpuforge.plan import recipe
from gpuforge.plan.action import ActionInput, Handle, P, Step, Workdir
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext
from gpuforge.plan.source_files import LoweredObject
from gpuforge.toolchain_names import needs_cuda


@dataclass(frozen=True, kw_only=True)
class PackageKernelsWheel(Step[P]):
    """Make a kernels wheel: the kernels of one CUDA major, with the requirements of their libraries.

    The output `declared` is a wheel of its metadata alone.
    """

    packages: ClassVar = REPAIRS
    writes_wheel: ClassVar = True
    of: P  # a wheel of the package's metadata, or its folder
    toolkit: P
    kernels: tuple[P, ...]  # folders with the kernels of each object
    kernels_wheel: KernelsWheel
    sets: tuple[KernelsWheelSet, ...]
    cuda: str  # the toolkit's version: "13.0"
    machine: str
    linkage: Linkage
    size_limit: int | None = None  # bytes
    pins: Mapping[str, str] = field(default_factory=dict)  # versions of the toolkit's pip packages
    pins_file: str = ""  # a file of the toolkit with more of them
    record: Mapping[str, Any]

    def run(self: PackageKernelsWheel[Path], at: Workdir) -> None:
        """Write the wheel; raises ActionError and leaves none on failure."""
        from gpuforge.actions.wheel import make

        make(at, partial(packed, self))


def packed(spec: PackageKernelsWheel[Path], scratch: Path, output: Path) -> Path:
    """Lay the wheel out in the folder `tree` of `scratch`; write it into `output` and return its path."""
    from gpuforge.actions.wheel import print_required, search_path_of
    from gpuforge.actions.wheelhouse import one_wheel
    from gpuforge.actions.write_wheel import epoch, write
    from gpuforge.package import kernel_set, kernels_wheel, links, naming, records, repair, requirements
    from gpuforge.wheel import metadata, unpacked

    pins = links.all_pins(spec.pins, spec.toolkit, spec.pins_file)
    tree = scratch / "tree"
    name = kernels_wheel.lay_out(
        tree,
        spec.kernels_wheel,
        metadata.of_wheel(one_wheel(spec.of)),
        spec.kernels,
        spec.sets,
        toolkit=spec.cuda,
        machine=spec.machine,
    )
    naming.write_tags(tree, name)
    linking = repair.Linking(spec.cuda, spec.linkage, pins, search_path_of(spec.toolkit))
    repaired = repair.repair(tree, name, scratch, linking, print)
    kernel_set.measure_again(tree, spec.kernels_wheel.folder)
    info = unpacked.dist_info(tree)
    text, added = requirements.require(
        metadata.of_file(info / "METADATA"), {p: pins.get(p) for p in repaired.distributions}
    )
    (info / "METADATA").write_bytes(text)
    print_required(added)
    naming.write_tags(tree, repaired.name)
    declared = {p: pins.get(p) for p in repaired.distributions}
    records.write_bill(tree, declared=declared, pins=pins, cuda=spec.cuda, epoch=epoch())
    records.write_record(tree, spec.record)
    return write(tree, output / str(repaired.name), spec.size_limit)


def first_of(context: PlanContext, cell: Cell) -> Cell:
    """Return the first chosen cell of the same Python, whose kernels stand for those of all CUDA versions."""
    return next(each for each in context.cells if (each.python, each.machine) == (cell.python, cell.machine))


def host_wheel(
    context: PlanContext, cell: Cell, host: ActionInput, kernels: Sequence[ActionInput]
) -> ActionInput:
    """Make the package's own wheel, with an extra for each kernels wheel of the manifest; once per Python."""
    file, manifest = context.file, context.file.manifest
    at, compiler = context.machine.host_at(cell)
    newest = kernels_wheels.toolkits(manifest)
    step = PackageWheel[Handle](
        wheel=host,
        requirements=environment.lock(context, cell, at),
        carried=carried(context, cell),
        kernels=tuple(kernels),
        name=manifest.package.name,
        package=manifest.package.import_,
        cuda=newest[0],
        linkage=manifest.cuda.linkage,
        naming="plain",
        narrowed=tuple(arch.number for arch in file.narrowed),
        python=python_tag(cell),
        abi=manifest.package.abi,
        size_limit=manifest.wheel.size_limit_bytes,
        more_requires=manifest.wheel.requires,
        # NVRTC is for one CUDA major and this wheel for all, so the runtime names the package that fits the driver.
        extras={k: v for k, v in recipe.extras(file.manifest, newest[0]).items() if not needs_cuda(k)},
        record=record_of_host(context, cell, compiler),
        c_header=manifest.package.c_header,
        kernels_wheels=tuple(_described(manifest, version) for version in newest),
        sets=_sets(context),
    )
    title = f"repair and name the wheel of {manifest.package.name} for Python {cell.python}"
    name = f"{_name_of_host(context, cell)}/wheel"
    return add(context, at, step, id=name, title=title)


def kernels_wheel(context: PlanContext, cell: Cell, kernels: Sequence[ActionInput]) -> ActionInput:
    """Make the kernels wheel of one toolkit; it serves every Python."""
    manifest = context.file.manifest
    at = context.machine.kernels_at(cell.cuda, cell.machine)
    found = at.toolkits[cell.cuda]
    first = next(each for each in context.cells if (each.cuda, each.machine) == (cell.cuda, cell.machine))
    step = PackageKernelsWheel[Handle](
        of=ActionInput(f"{_name_of_host(context, first)}/wheel", "declared"),
        toolkit=toolkit(context, cell, at),
        kernels=tuple(kernels),
        kernels_wheel=_described(manifest, cell.toolkit),
        sets=_sets(context),
        cuda=cell.toolkit,
        machine=cell.machine,
        linkage=manifest.cuda.linkage,
        size_limit=manifest.wheel.size_limit_bytes,
        pins=found.packages,
        pins_file=found.packages_file,
        record=record_of_kernels(context, at, cell, at.hosts[cell.cuda]),
    )
    title = f"make {kernels_wheels.distribution(manifest, cell.toolkit)}"
    name = f"cu{cell.toolkit}{context.machine.suffix(cell.machine)}/kernels-wheel"
    return add(context, at, step, id=name, title=title)


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
    return environment.python_name(context, cell, at)
