"""The kernels of one object, once per toolkit: compiled and indexed (fallback), or gathered (user-compiled)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.model.object import Object
from gpuforge.plan import abi, advice, recipe, source_files, variables
from gpuforge.plan.action import Action, ActionInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import command_library, compiler, library, packaged
from gpuforge.plan.lower.context import Context, kernels_name, of_kernels
from gpuforge.plan.lower.toolkit import toolkit
from gpuforge.plan.requests.kernels import CompiledBy, CompiledModule, KernelIndex, Source
from gpuforge.plan.supported import refuse_same_modules
from gpuforge.toolchains import nvcc, registry


def kernels(context: Context, cell: Cell) -> dict[str, ActionInput]:
    """Return the kernels of the objects that have some, for the toolkit of a cell, by the object's name."""
    objects = [item for item in context.file.manifest.objects if item.sources]
    return {item.name: _kernels(context, cell, item) for item in objects}


def _kernels(context: Context, cell: Cell, item: Object) -> ActionInput:
    file, at = context.file, context.machine.kernels_at(cell.cuda)
    tree = source_files.object_sources(file, item)
    compiled = [str(source) for source in source_files.compiled(file, item)]
    refuse_same_modules(file, item, compiled)
    inputs: Mapping[str, Input] = {}
    if item.role == "user-compiled":
        request = _sources(context, cell, item, compiled, sorted({*(tree.members or ())} - {*compiled}))
    elif file.manifest.toolchains[item.toolchain or ""].compiler == "command":
        inputs = {"library": command_library.run_command(context, cell, item, compiled)}
        request = command_library.described(context, cell, item)
    elif registry.toolchain(file.manifest.toolchains[item.toolchain or ""].compiler).packaged:
        request, lock = packaged.described(context, cell, item, compiled)
        inputs = {**packaged.compile_kernels(context, cell, item, compiled), **lock}
    elif item.kind == "library":
        inputs = library.compile_libraries(context, cell, item, compiled)
        request = library.described(context, cell, item, inputs)
    else:
        inputs = {f"module{n}": _compile(context, cell, item, source) for n, source in enumerate(compiled)}
        request = _modules(context, cell, item, dict(zip(compiled, inputs, strict=True)))
    return context.add_step(
        request,
        at,
        "kernels",
        id=f"{kernels_name(context, cell)}/{item.name}",
        kind="package",
        title=f"{'index' if inputs else 'gather'} {item.name}"
        + (f" for CUDA {cell.toolkit}" if cell.cuda else ""),
        inputs={"sources": tree, **inputs},
        outputs=("kernels",),
        cells=context.users(cuda=cell.cuda, part=of_kernels),
    )


def _modules(context: Context, cell: Cell, item: Object, fatbins: Mapping[str, str]) -> KernelIndex:
    """Return the index of a fallback's modules; `fatbins` are inputs, by source."""
    nvcc_version = context.machine.kernels_at(cell.cuda).toolkits[cell.cuda].nvcc
    return KernelIndex(
        name=item.name,
        role="fallback",
        toolkit=cell.toolkit,
        toolchain=CompiledBy("nvcc", nvcc_version),
        modules=tuple(
            CompiledModule(
                PurePosixPath(source).stem, source, Path("${in:sources}", source), Path(f"${{in:{fatbin}}}")
            )
            for source, fatbin in fatbins.items()
        ),
        stands_in_for=item.stands_in_for or "",
        cpu=abi.cpu_of(context.file, item),
        output=Path("${out:kernels}"),
    )


def _sources(
    context: Context, cell: Cell, item: Object, compiled: Sequence[str], included: Sequence[str]
) -> KernelIndex:
    """Return the recipe of an object that the user's machine compiles."""
    file = context.file
    found = KernelIndex(
        name=item.name,
        role="user-compiled",
        toolkit=cell.toolkit,
        archs=variables.real(file.manifest.cuda.versions[cell.cuda].archs) if cell.cuda else (),
        sources=tuple(Source(name, Path("${in:sources}", name)) for name in compiled),
        includes=tuple(Source(name, Path("${in:sources}", name)) for name in included),
        abi=abi.identity(file, item),
        packages=abi.packages(file, item),
        kind=item.kind,
        fallbacks=tuple(abi.fallbacks_of(file, item)),
        cpu=abi.cpu_of(file, item),
        output=Path("${out:kernels}"),
    )
    newest = cell.toolkit
    if kernels_wheels.is_split(file.manifest):  # the wheel that they go into is for all CUDA versions
        newest = kernels_wheels.toolkits(file.manifest)[0]
        found = replace(found, toolkit="", archs=())
    return replace(found, toolchains=recipe.toolchains(file, item, compiled, newest))


def _compile(context: Context, cell: Cell, item: Object, source: str) -> ActionInput:
    """Compile one source of a fallback object for every architecture of its toolkit into one fatbin."""
    file, at = context.file, context.machine.kernels_at(cell.cuda)
    cuda_version = file.manifest.cuda.versions[cell.cuda]
    host = compiler.use(context, at.hosts[cell.cuda], at, lay=False)
    archs, ptx = variables.real(cuda_version.archs), variables.virtual(cuda_version.archs, cuda_version.ptx)
    action = Action(
        id=f"{kernels_name(context, cell)}/{item.name}/{source}",
        kind="compile",
        title=f"compile {source} with nvcc {cell.toolkit} for {nvcc.images(archs, ptx)}",
        advice=advice.of_compile(file, item),
        argv=nvcc.module_argv(
            "${in:toolkit}/bin/nvcc",
            source=f"${{stage:sources}}/{source}",
            output="${out:fatbin}",
            archs=archs,
            ptx=ptx,
            host=host.programs["cxx"],
            includes=("${stage:sources}",),
            flags=(*file.manifest.toolchains[item.toolchain or ""].flags, *item.flags),
        ),
        inputs={
            "sources": source_files.one_source(file, item, source),
            "toolkit": toolkit(context, cell, at),
            **host.inputs,
        },
        outputs=("fatbin",),
        env=variables.plain() | {"PATH": at.path},
        image=at.image_id,
        cells=context.users(cuda=cell.cuda, part=of_kernels),
    )
    return context.add(action, "fatbin")
