"""The action that makes a fallback library: all sources of an object, compiled and linked by the host compiler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Object
from gpuforge.plan import abi, advice, environment, lower_compiler, recipe, sources
from gpuforge.plan.action import Action, ActionInput
from gpuforge.plan.call import fill
from gpuforge.plan.cell import Cell
from gpuforge.plan.site import Machine

_ABI_C = Path(__file__).resolve().parent.parent / "runtime" / "abi.c"


class Lowering(lower_compiler.Lowering, Protocol):
    """What the lowering of a whole manifest gives to that of its libraries."""

    file: ManifestFile
    machine: Machine

    def users(self, *, cuda: str | None = None, python: str | None = None) -> tuple[str, ...]:
        """Return the ids of the cells that share something of one toolkit."""


def compile_library(lowering: Lowering, cell: Cell, item: Object, compiled: Sequence[str]) -> ActionInput:
    """Compile one fallback object into a shared library that carries its ABI id."""
    file = lowering.file
    at = lowering.machine.kernels_at(cell.cuda)
    host = at.hosts[cell.cuda]
    used = lower_compiler.use(lowering, host, at, lay=False)
    made = recipe.call(file.manifest.toolchains[item.toolchain or ""], item, compiled)
    assert made is not None  # noqa: S101  plan.supported has refused others
    tree = sources.object_sources(file, item)
    folders = sorted({".", *(str(PurePosixPath(name).parent) for name in tree.members or ())})
    paths = {
        "include": ["${stage:sources}"],
        "folders": [f"${{stage:sources}}/{folder}".removesuffix("/.") for folder in folders],
        "sources": [f"${{stage:sources}}/{name}" for name in compiled],
        "abi": ["${stage:abi}/abi.c"],
        "output": ["${out:library}"],
    }
    action = Action(
        id=f"cu{cell.toolkit}/kernels/{item.name}/library",
        kind="compile",
        title=f"compile {item.name} with {host.family} {host.version}",
        advice=advice.of_compile(file, item),
        argv=(
            used.programs["cxx"],
            f'-DGPUFORGE_ABI_ID="{abi.identity(file, item)}"',
            *fill(made.argv[1:], paths),
        ),
        inputs={
            "sources": tree,
            "abi": sources.files(_ABI_C.parent, [_ABI_C]),
            **used.inputs,
        },
        outputs=("library",),
        env=environment.plain() | {"PATH": at.path},
        image=at.image_id,
        cells=lowering.users(cuda=cell.cuda),
    )
    return ActionInput(lowering.add(action), "library")


def described(lowering: Lowering, cell: Cell, item: Object) -> dict[str, Any]:
    """Return what the index says of a fallback library, for the step that writes it."""
    host = lowering.machine.kernels_at(cell.cuda).hosts[cell.cuda]
    return {
        "toolchain": {"family": host.family, "version": str(host.version)},
        "library": "${in:library}",
        "abi": abi.identity(lowering.file, item),
        "stands_in_for": item.stands_in_for or "",
    }
