"""The actions that make a fallback's libraries: all sources of an object, compiled and linked by one compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from gpuforge.cuda.kernels import KernelImage
from gpuforge.package import contents
from gpuforge.package.contents import CompiledBy, CompiledLibrary
from gpuforge.plan import advice, recipe, source_files, variables
from gpuforge.plan.action import Action, ActionInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.literal import literal, literals
from gpuforge.plan.lower import compiler
from gpuforge.plan.lower.kernels_step import KernelsStep, library_index
from gpuforge.plan.lower.plan_context import PlanContext, kernels_name, of_kernels
from gpuforge.plan.lower.toolkit import toolkit
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.runtime.cpu_level import CpuLevel
from gpuforge.runtime.placeholders import fill
from gpuforge.toolchains import nvcc


def by_host(context: PlanContext, cell: Cell, item: LoweredObject) -> KernelsStep:
    """Compile one fallback object by the host compiler into shared libraries that carry its ABI id.

    It makes one library, or one for each CPU level that the object lists.
    """
    host = context.machine.kernels_at(cell.cuda).hosts[cell.cuda]
    levels = {f"library{number}": level for number, level in enumerate(item.levels)} or {"library": ""}
    libraries = {name: _compile_by_host(context, cell, item, level) for name, level in levels.items()}
    made = [
        CompiledLibrary(Path(f"${{in:{name}}}"), (KernelImage("library", CpuLevel(level)),))
        for name, level in levels.items()
    ]
    made_by = CompiledBy(host.family, str(host.version))
    return KernelsStep(library_index(cell, item, made_by, made), libraries)


def by_nvcc(context: PlanContext, cell: Cell, item: LoweredObject) -> KernelsStep:
    """Compile one fallback object by a toolkit's nvcc into a shared library that carries its ABI id."""
    library = _compile_by_nvcc(context, cell, item)
    made_by = CompiledBy(nvcc.NVCC.name, context.machine.kernels_at(cell.cuda).toolkits[cell.cuda].nvcc)
    made = [CompiledLibrary(Path("${in:library}"))]
    return KernelsStep(library_index(cell, item, made_by, made), {"library": library})


def _compile_by_nvcc(context: PlanContext, cell: Cell, item: LoweredObject) -> ActionInput:
    """Compile for every architecture of the toolkit; libcudart is linked according to the manifest's linkage."""
    file = context.file
    at = context.machine.kernels_at(cell.cuda)
    host = compiler.use(context, at.hosts[cell.cuda], at, lay=False)
    targets = file.manifest.cuda.versions[cell.cuda].targets
    paths = _paths(item)
    argv = nvcc.library_argv(
        "${in:toolkit}/bin/nvcc",
        sources=(*paths["sources"], *paths["abi"]),
        output=paths["output"][0],
        targets=targets,
        cudart="static" if file.manifest.cuda.linkage == "static" else "shared",
        host=host.programs["cxx"],
        includes=paths["folders"],
        flags=literals((item.abi_macro, *item.toolchain.flags, *item.flags)),
    )
    title = f"with nvcc {cell.toolkit} for {nvcc.images(targets)}"
    inputs = {"toolkit": toolkit(context, cell, at), **host.inputs}
    return _action(context, cell, item, argv=argv, title=title, inputs=inputs)


def _compile_by_host(context: PlanContext, cell: Cell, item: LoweredObject, level: str) -> ActionInput:
    at = context.machine.kernels_at(cell.cuda)
    host = at.hosts[cell.cuda]
    used = compiler.use(context, host, at, lay=False)
    made = recipe.call(item.toolchain, item, item.sources)
    assert made is not None  # noqa: S101  plan.supported has refused others
    argv = (
        used.programs["cxx"],
        literal(item.abi_macro),
        *fill(literals(made.argv[1:]), _paths(item)),
        *((f"-march={level}",) if level else ()),  # after the flags, so that the index is right
    )
    title = f"with {host.family} {host.version}" + (f" for {level}" if level else "")
    return _action(context, cell, item, argv=argv, title=title, inputs=used.inputs, level=level)


def _action(
    context: PlanContext,
    cell: Cell,
    item: LoweredObject,
    *,
    argv: Sequence[str],
    title: str,
    inputs: Mapping[str, Input],
    level: str = "",
) -> ActionInput:
    at = context.machine.kernels_at(cell.cuda)
    action = Action(
        id=f"{kernels_name(context, cell)}/{item.name}/library" + (f"-{level}" if level else ""),
        kind="compile",
        title=f"compile {item.name} {title}",
        advice=advice.of_compile(context.file, item.number),
        argv=tuple(argv),
        inputs={
            "sources": item.files,
            "abi": source_files.files(contents.FOLDER, [contents.ABI_C], context.contents),
            **inputs,
        },
        staged=("sources", "abi"),
        outputs=("library",),
        env=variables.plain(context.environ) | {"PATH": at.path},
        image=at.image_id,
        cells=context.users(cuda=cell.cuda, part=of_kernels),
    )
    return context.add(action, "library")


def _paths(item: LoweredObject) -> dict[str, list[str]]:
    folders = sorted({".", *(str(PurePosixPath(name).parent) for name, _ in item.files.parts)})
    return {
        "include": ["${stage:sources}"],
        "folders": [
            "${stage:sources}" if folder == "." else f"${{stage:sources}}/{literal(folder)}"
            for folder in folders
        ],
        "sources": [f"${{stage:sources}}/{literal(name)}" for name in item.sources],
        "abi": ["${stage:abi}/abi.c"],
        "output": ["${out:library}"],
        **{name: [] for name in ("arch", "cuda")},  # unknown in a build
    }
