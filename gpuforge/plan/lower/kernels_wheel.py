"""Kernels in wheels of their own as actions: the package's wheel, once for all CUDA, and the kernels wheels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.object import Object
from gpuforge.plan import abi, provenance, recipe, sources, variables
from gpuforge.plan.action import Action, ActionInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import testing as lower_test
from gpuforge.toolkits import redist


class Lowering(lower_test.Lowering, Protocol):
    """What the lowering of a whole manifest gives to that of its kernels wheels."""

    cells: tuple[Cell, ...]

    def requirements(self, cell: Cell, at: Any) -> ActionInput:
        """Return the environment of the host build."""


def first_of(lowering: Lowering, cell: Cell) -> Cell:
    """Return the first chosen cell of the same Python: its kernels serve for what is shared by all CUDA versions."""
    return next(each for each in lowering.cells if each.python == cell.python)


def host_wheel(
    lowering: Lowering, cell: Cell, host: ActionInput, kernels: Sequence[ActionInput]
) -> ActionInput:
    """Make the package's own wheel, with an extra for each kernels wheel of the manifest; once per Python."""
    file, manifest = lowering.file, lowering.file.manifest
    at, compiler = lowering.machine.host_at(cell)
    newest = kernels_wheels.toolkits(manifest)
    spec = {
        "wheel": "${in:wheel}",
        "name": manifest.package.name,
        "kernels": [f"${{in:kernels{number}}}" for number in range(len(kernels))],
        "import": manifest.package.import_,
        "cuda": newest[0],
        "linkage": manifest.cuda.linkage,
        "naming": "plain",
        "narrowed": list(file.narrowed),
        "python": None if cell.python == "3" else "cp" + cell.python.replace(".", ""),
        "abi": manifest.package.abi,
        "size_limit": manifest.wheel.size_limit_bytes,
        "kernels_wheels": [
            {
                "distribution": kernels_wheels.distribution(manifest, toolkit),
                "folder": kernels_wheels.folder(manifest, toolkit),
                "extra": kernels_wheels.extra_for(toolkit),
            }
            for toolkit in newest
        ],
        "sets": sets(file),
        "record": provenance.of_host(file, cell, at, compiler),
        "requirements": "${in:requirements}",
        # NVRTC is of one CUDA major, and this wheel of all: users are told the package that fits their driver.
        "extras": {k: v for k, v in recipe.extras(file, newest[0]).items() if k != "nvrtc"},
        "work": "${work}",
    }
    action = Action(
        id=f"{name_of_host(lowering, cell)}/wheel",
        kind="package",
        title=f"repair and name the wheel of {manifest.package.name} for Python {cell.python}",
        argv=lowering.step("package_wheel", spec=spec, output="${out:wheel}", declared="${out:declared}"),
        inputs={
            "gpuforge": lowering.itself("package_wheel", at),
            "wheel": host,
            "requirements": ActionInput(lowering.requirements(cell, at).action, "requirements.json"),
            **{f"kernels{number}": value for number, value in enumerate(kernels)},
        },
        outputs=("wheel", "declared"),
        by_content=True,
        env=variables.plain() | {"PATH": at.path},
        image=at.image_id,
        cells=lowering.users(python=cell.python),
    )
    return ActionInput(lowering.add(action), "wheel")


def kernels_wheel(lowering: Lowering, cell: Cell, kernels: Sequence[ActionInput]) -> ActionInput:
    """Make the kernels wheel of one toolkit, whatever the Pythons."""
    file, manifest = lowering.file, lowering.file.manifest
    at = lowering.machine.kernels_at(cell.cuda)
    toolkit = at.toolkits[cell.cuda]
    first = next(each for each in lowering.cells if each.cuda == cell.cuda)
    spec = {
        "of": "${in:of}",
        "distribution": kernels_wheels.distribution(manifest, cell.toolkit),
        "folder": kernels_wheels.folder(manifest, cell.toolkit),
        "extra": kernels_wheels.extra_for(cell.toolkit),
        "kernels": [f"${{in:kernels{number}}}" for number in range(len(kernels))],
        "sets": sets(file),
        "cuda": cell.toolkit,
        "machine": cell.machine,
        "linkage": manifest.cuda.linkage,
        "pins": {pin.package: pin.version for pin in toolkit.pins},
        "pins_file": f"${{in:toolkit}}/{redist.VERSIONS}" if toolkit.archives else None,
        "size_limit": manifest.wheel.size_limit_bytes,
        "search_path": ["${in:toolkit}/lib64", "${in:toolkit}/lib"],
        "record": provenance.of_kernels(file, at, cell),
        "work": "${work}",
    }
    action = Action(
        id=f"cu{cell.toolkit}/kernels-wheel",
        kind="package",
        title=f"make {kernels_wheels.distribution(manifest, cell.toolkit)}",
        argv=lowering.step("package_kernels", spec=spec, output="${out:wheel}", declared="${out:declared}"),
        inputs={
            "gpuforge": lowering.itself("package_kernels", at),
            "of": ActionInput(f"{name_of_host(lowering, first)}/wheel", "declared"),
            "toolkit": lowering.toolkit(cell, at),
            **{f"kernels{number}": value for number, value in enumerate(kernels)},
        },
        outputs=("wheel", "declared"),
        by_content=True,
        env=variables.plain() | {"PATH": at.path},
        image=at.image_id,
        cells=lowering.users(cuda=cell.cuda),
    )
    return ActionInput(lowering.add(action), "wheel")


def sets(file: ManifestFile) -> list[dict[str, str]]:
    """Return the kernel sets of the kernels wheels, with the interface that the package's code relies on."""
    manifest = file.manifest
    return [
        {"name": item.name, "kind": item.kind, "abi": interface(file, item)}
        | ({"stands-in-for": item.stands_in_for} if item.stands_in_for else {})
        | ({"cpu": cpu} if (cpu := abi.cpu_of(file, item)) else {})
        for item in manifest.objects
        if kernels_wheels.in_kernels_wheel(manifest, item)
    ]


def interface(file: ManifestFile, item: Object) -> str:
    """Return what a set and the package must agree on: a library's ABI id, and of modules the very sources."""
    if item.kind == "library" and (identity := abi.identity(file, item)):
        return identity
    return sources.object_sources(file, item).digest[:16]


def name_of_host(lowering: Lowering, cell: Cell) -> str:
    """Return what the package's wheel is called among the actions: "py3.11", in an image "py3.11-bookworm"."""
    at, _ = lowering.machine.host_at(cell)
    return f"py{cell.python}" + (f"-{at.image.name}" if at.image else "")
