"""The actions that make a fallback's libraries: all sources of an object, compiled and linked by one compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.object import Object
from gpuforge.plan import abi, advice, recipe, sources, variables
from gpuforge.plan.action import Action, ActionInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.compiler_call import fill
from gpuforge.plan.lower import compiler as lower_compiler
from gpuforge.plan.site import Location, Machine
from gpuforge.toolchains import nvcc

_ABI_C = Path(__file__).resolve().parents[2] / "runtime" / "abi.c"


class Lowering(lower_compiler.Lowering, Protocol):
    """What the lowering of a whole manifest gives to that of its libraries."""

    file: ManifestFile
    machine: Machine

    def users(self, *, cuda: str | None = None, python: str | None = None) -> tuple[str, ...]:
        """Return the ids of the cells that share something of one toolkit."""

    def toolkit(self, cell: Cell, at: Location) -> Input:
        """Return the toolkit of a cell."""


def compile_libraries(
    lowering: Lowering, cell: Cell, item: Object, compiled: Sequence[str]
) -> dict[str, Input]:
    """Compile one fallback object into shared libraries that carry its ABI id; return them by the names of inputs.

    There is one, or one for each level of CPUs that the object lists.
    """
    if _by_nvcc(lowering, item):
        return {"library": _compile_by_nvcc(lowering, cell, item, compiled)}
    return {
        name: _compile_by_host(lowering, cell, item, compiled, level)
        for name, level in zip(_names(item), item.cpu or ("",), strict=True)
    }


def _names(item: Object) -> list[str]:
    return [f"library{number}" for number in range(len(item.cpu))] or ["library"]


def _by_nvcc(lowering: Lowering, item: Object) -> bool:
    return lowering.file.manifest.toolchains[item.toolchain or ""].compiler == "nvcc"


def _compile_by_nvcc(lowering: Lowering, cell: Cell, item: Object, compiled: Sequence[str]) -> ActionInput:
    """Compile for every architecture of the toolkit; libcudart is linked as the manifest's linkage has it."""
    file = lowering.file
    at = lowering.machine.kernels_at(cell.cuda)
    host = lower_compiler.use(lowering, at.hosts[cell.cuda], at, lay=False)
    wanted = file.manifest.cuda.versions[cell.cuda]
    paths = _paths(file, item, compiled)
    archs, ptx = variables.real(wanted.archs), variables.virtual(wanted.archs, wanted.ptx)
    argv = nvcc.library_argv(
        "${in:toolkit}/bin/nvcc",
        sources=(*paths["sources"], *paths["abi"]),
        output=paths["output"][0],
        archs=archs,
        ptx=ptx,
        cudart="static" if file.manifest.cuda.linkage == "static" else "shared",
        host=host.programs["cxx"],
        includes=paths["folders"],
        flags=(_abi_id(file, item), *file.manifest.toolchains[item.toolchain or ""].flags, *item.flags),
    )
    title = f"with nvcc {cell.toolkit} for {nvcc.images(archs, ptx)}"
    inputs = {"toolkit": lowering.toolkit(cell, at), **host.inputs}
    return _action(lowering, cell, item, argv=argv, title=title, inputs=inputs)


def _compile_by_host(
    lowering: Lowering, cell: Cell, item: Object, compiled: Sequence[str], level: str
) -> ActionInput:
    file = lowering.file
    at = lowering.machine.kernels_at(cell.cuda)
    host = at.hosts[cell.cuda]
    used = lower_compiler.use(lowering, host, at, lay=False)
    made = recipe.call(file.manifest.toolchains[item.toolchain or ""], item, compiled)
    assert made is not None  # noqa: S101  plan.supported has refused others
    argv = (
        used.programs["cxx"],
        _abi_id(file, item),
        *fill(made.argv[1:], _paths(file, item, compiled)),
        *((f"-march={level}",) if level else ()),  # after the flags: what the index says must be true
    )
    title = f"with {host.family} {host.version}" + (f" for {level}" if level else "")
    return _action(lowering, cell, item, argv=argv, title=title, inputs=used.inputs, level=level)


def _action(
    lowering: Lowering,
    cell: Cell,
    item: Object,
    *,
    argv: Sequence[str],
    title: str,
    inputs: Mapping[str, Input],
    level: str = "",
) -> ActionInput:
    at = lowering.machine.kernels_at(cell.cuda)
    action = Action(
        id=f"cu{cell.toolkit}/kernels/{item.name}/library" + (f"-{level}" if level else ""),
        kind="compile",
        title=f"compile {item.name} {title}",
        advice=advice.of_compile(lowering.file, item),
        argv=tuple(argv),
        inputs={
            "sources": sources.object_sources(lowering.file, item),
            "abi": sources.files(_ABI_C.parent, [_ABI_C]),
            **inputs,
        },
        outputs=("library",),
        env=variables.plain() | {"PATH": at.path},
        image=at.image_id,
        cells=lowering.users(cuda=cell.cuda),
    )
    return ActionInput(lowering.add(action), "library")


def _abi_id(file: ManifestFile, item: Object) -> str:
    return f'-DGPUFORGE_ABI_ID="{abi.identity(file, item)}"'


def _paths(file: ManifestFile, item: Object, compiled: Sequence[str]) -> dict[str, list[str]]:
    tree = sources.object_sources(file, item)
    folders = sorted({".", *(str(PurePosixPath(name).parent) for name in tree.members or ())})
    return {
        "include": ["${stage:sources}"],
        "folders": [f"${{stage:sources}}/{folder}".removesuffix("/.") for folder in folders],
        "sources": [f"${{stage:sources}}/{name}" for name in compiled],
        "abi": ["${stage:abi}/abi.c"],
        "output": ["${out:library}"],
    }


def described(lowering: Lowering, cell: Cell, item: Object, libraries: Mapping[str, Input]) -> dict[str, Any]:
    """Return what the index says of a fallback's libraries, for the step that writes it."""
    at = lowering.machine.kernels_at(cell.cuda)
    host = at.hosts[cell.cuda]
    by_nvcc = _by_nvcc(lowering, item)
    levels: Sequence[str | None] = [None] if by_nvcc else item.cpu or [""]
    return {
        "toolchain": {"family": "nvcc", "version": at.toolkits[cell.cuda].nvcc}
        if by_nvcc
        else {"family": host.family, "version": str(host.version)},
        "libraries": [
            {"path": f"${{in:{name}}}", "cpu": level} for name, level in zip(libraries, levels, strict=True)
        ],
        "abi": abi.identity(lowering.file, item),
        "stands_in_for": item.stands_in_for or "",
        "fallbacks": abi.fallbacks_of(lowering.file, item),
    }
