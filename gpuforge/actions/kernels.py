"""The kernels of one object, once per toolkit: compiled and indexed (fallback), or gathered (user-compiled)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from gpuforge.actions import compiler
from gpuforge.actions.kernel_index import (
    KERNELS,
    GatherSources,
    IndexLibraries,
    IndexModules,
    LayingStep,
)
from gpuforge.actions.toolkit import toolkit
from gpuforge.cuda.kernels import KernelImage
from gpuforge.manifest import kernels_wheels
from gpuforge.package import contents
from gpuforge.package.contents import CompiledBy, CompiledLibrary, CompiledModule, SourceSet
from gpuforge.plan import advice, recipe, source_files, variables
from gpuforge.plan.action import Action, ActionInput, Handle, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext, kernels_name
from gpuforge.plan.source_files import LoweredObject
from gpuforge.plan.supported import refuse_same_modules
from gpuforge.plan.variables import literal, literals
from gpuforge.runtime.cpu import CpuLevel
from gpuforge.runtime.placeholders import fill
from gpuforge.toolchains import nvcc, registry
from gpuforge.toolchains.toolchain import Compiler, CompilerCall


def kernels(context: PlanContext, cell: Cell) -> dict[str, ActionInput]:
    """Return the kernels of each object that has some, by its name, for the toolkit and machine type of a cell."""
    return {item.name: _kernels(context, cell, item) for item in context.objects}


def _kernels(context: PlanContext, cell: Cell, item: LoweredObject) -> ActionInput:
    refuse_same_modules(context.file, item)
    way = _way(item)
    of_machine = way not in {user_sources, modules}
    step = way(context, cell, item)
    return context.add_step(
        step,
        context.machine.kernels_at(cell.cuda, cell.machine if of_machine else ""),
        id=f"{kernels_name(context, cell, of_machine=of_machine)}/{item.name}",
        kind="package",
        title=f"{step.verb} {item.name}" + (f" for CUDA {cell.toolkit}" if cell.cuda else ""),
        outputs=(KERNELS,),
    )


def _way(item: LoweredObject) -> Callable[[PlanContext, Cell, LoweredObject], LayingStep[Handle]]:
    """Return the function that lowers an object. It depends on where the compiler is, then on what it makes."""
    if item.role == "user-compiled":
        return user_sources
    toolchain = registry.toolchain(item.toolchain.compiler)
    if toolchain.packaged:  # few manifests have these two
        from gpuforge.actions import packaged_compiler

        return packaged_compiler.lower
    if toolchain.by_command:
        from gpuforge.actions import command_library

        return command_library.lower
    if item.kind == "module":
        return modules
    return library_by_nvcc if toolchain.of_toolkit else libraries_by_host


def user_sources(context: PlanContext, cell: Cell, item: LoweredObject) -> GatherSources[Handle]:
    """Gather the sources that users' machines compile, with a recipe for each compiler that can compile them."""
    file = context.file
    toolkit = recipe_for = cell.toolkit
    targets = file.manifest.cuda.versions[cell.cuda].targets if cell.cuda else ()
    if kernels_wheels.is_split(file.manifest):  # the wheel that they go into is for all CUDA versions
        toolkit, targets = "", ()
        recipe_for = kernels_wheels.toolkits(file.manifest)[0]
    gathered = SourceSet(
        name=item.name,
        toolkit=toolkit,
        archs=tuple(target.arch.number for target in targets if target.real),
        sources=tuple(item.sources),
        includes=tuple(name for name, _ in item.files.parts if name not in item.sources),
        toolchains=recipe.toolchains(file, item, recipe_for),
        abi=item.abi,
        packages=item.abi_packages,
        kind=item.kind,
        program=item.program,
        fallbacks=item.fallbacks,
        cpu=item.cpu,
    )
    return GatherSources[Handle](sources=item.files, gathered=gathered)


def modules(context: PlanContext, cell: Cell, item: LoweredObject) -> IndexModules[Handle]:
    """Compile each source by nvcc into one fatbin, for every architecture of a toolkit."""
    compiled = tuple(
        CompiledModule[Handle](name, _module(context, cell, item, name)) for name in item.sources
    )
    return IndexModules[Handle](
        sources=item.files, modules=compiled, made=item.module_set(cell.toolkit, _nvcc(context, cell))
    )


def _nvcc(context: PlanContext, cell: Cell) -> CompiledBy:
    return CompiledBy(nvcc.NVCC.name, context.machine.kernels_at(cell.cuda).toolkits[cell.cuda].nvcc)


def _module(context: PlanContext, cell: Cell, item: LoweredObject, source: str) -> ActionInput:
    """Compile one source."""
    at = context.machine.kernels_at(cell.cuda)
    targets = context.file.manifest.cuda.versions[cell.cuda].targets
    host = compiler.use(context, at.hosts[cell.cuda], at)
    action = Action(
        id=f"{kernels_name(context, cell, of_machine=False)}/{item.name}/{source}",
        kind="compile",
        title=f"compile {source} with nvcc {cell.toolkit} for {nvcc.images(targets)}",
        advice=advice.of_compile(context.file, item.number),
        argv=nvcc.module_argv(
            "${in:toolkit}/bin/nvcc",
            source=f"${{stage:sources}}/{literal(source)}",
            output="${out:fatbin}",
            targets=targets,
            host=host.programs["cxx"],
            includes=("${stage:sources}", "${stage:runtime}"),
            flags=literals((*item.toolchain.flags, *item.flags)),
        ),
        inputs={
            "sources": item.files_for(source),
            "runtime": source_files.files(contents.FOLDER, [contents.ERRORS_H], context.contents),
            "toolkit": toolkit(context, cell, at),
            **host.inputs,
        },
        outputs=("fatbin",),
        env=variables.plain(context.environ) | {"PATH": at.path},
        image=at.image_id,
    )
    return context.add(action, "fatbin")


def libraries_by_host(context: PlanContext, cell: Cell, item: LoweredObject) -> IndexLibraries[Handle]:
    """Compile a fallback's libraries by the host compiler, or by that of its own toolchain; each has its ABI id.

    It makes one library, or one for each CPU level that the object lists. With code for GPUs it is for the
    architectures of the cell, and the images are those that are found in it.
    """
    host = _host(context, cell, item)
    call = recipe.call(item.toolchain, item, item.sources)
    assert call is not None  # noqa: S101  plan.supported has refused others
    made = tuple(
        CompiledLibrary[Handle](
            _compile_by_host(context, cell, item, call, level),
            () if call.for_gpus else (KernelImage("library", CpuLevel(level)),),
        )
        for level in (item.levels if cell.machine == "x86_64" else ()) or ("",)
    )
    made_by = CompiledBy(host.family, str(host.version))
    return IndexLibraries[Handle](
        sources=item.files, libraries=made, made=item.library_set(cell.toolkit, made_by)
    )


def library_by_nvcc(context: PlanContext, cell: Cell, item: LoweredObject) -> IndexLibraries[Handle]:
    """Compile a fallback's library by a toolkit's nvcc; it has its ABI id."""
    made = CompiledLibrary[Handle](_compile_by_nvcc(context, cell, item))
    return IndexLibraries[Handle](
        sources=item.files, libraries=(made,), made=item.library_set(cell.toolkit, _nvcc(context, cell))
    )


def _compile_by_nvcc(context: PlanContext, cell: Cell, item: LoweredObject) -> ActionInput:
    """Compile for every architecture of the toolkit; libcudart is linked according to the manifest's linkage."""
    file = context.file
    at = context.machine.kernels_at(cell.cuda, cell.machine)
    host = compiler.use(context, at.hosts[cell.cuda], at)
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
    if item.program:
        argv = tuple(word for word in argv if word != "-shared")
    title = f"with nvcc {cell.toolkit} for {nvcc.images(targets)}"
    inputs = {"toolkit": toolkit(context, cell, at), **host.inputs}
    return _action(context, cell, item, argv=argv, title=title, inputs=inputs)


def _host(context: PlanContext, cell: Cell, item: LoweredObject) -> Compiler:
    at = context.machine.kernels_at(cell.cuda, cell.machine)
    return at.others.get(next(iter(item.toolchains)), at.hosts[cell.cuda])


def _compile_by_host(
    context: PlanContext, cell: Cell, item: LoweredObject, made: CompilerCall, level: str
) -> ActionInput:
    at = context.machine.kernels_at(cell.cuda, cell.machine)
    host = _host(context, cell, item)
    used = compiler.use(context, host, at)
    paths, inputs, label = _paths(item), used.inputs, f" for {level}" if level else ""
    if made.for_gpus:
        archs = [t.arch.number for t in context.file.manifest.cuda.versions[cell.cuda].targets if t.real]
        paths["arch"] = [made.joins_archs.join(archs)] if made.joins_archs else archs
        paths["cuda"] = ["${in:toolkit}"]
        inputs = {**inputs, "toolkit": toolkit(context, cell, at)}
        label = f" and CUDA {cell.toolkit} for {' '.join(f'sm_{arch}' for arch in archs)}"
    argv = (
        used.programs["cxx"],
        literal(item.abi_macro),
        *fill(literals(made.argv[1:]), paths),
        *((f"-march={level}",) if level else ()),  # after the flags, so that the index is right
    )
    title = f"with {host.family} {host.version}{label}"
    return _action(context, cell, item, argv=argv, title=title, inputs=inputs, level=level)


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
    at = context.machine.kernels_at(cell.cuda, cell.machine)
    action = Action(
        id=f"{kernels_name(context, cell)}/{item.name}/library" + (f"-{level}" if level else ""),
        kind="compile",
        title=f"compile {item.name} {title}",
        advice=advice.of_compile(context.file, item.number),
        argv=tuple(argv),
        inputs={
            "sources": item.files,
            "runtime": source_files.files(contents.FOLDER, contents.FOR_COMPILERS, context.contents),
            **inputs,
        },
        outputs=("library",),
        env=variables.plain(context.environ) | {"PATH": at.path},
        image=at.image_id,
    )
    return context.add(action, "library")


def _paths(item: LoweredObject) -> dict[str, list[str]]:
    folders = sorted({".", *(str(PurePosixPath(name).parent) for name, _ in item.files.parts)})
    return {
        "include": ["${stage:sources}"],
        "folders": [
            "${stage:sources}" if folder == "." else f"${{stage:sources}}/{literal(folder)}"
            for folder in folders
        ]
        + ["${stage:runtime}"],
        "sources": [f"${{stage:sources}}/{literal(name)}" for name in item.sources],
        "abi": ["${stage:runtime}/abi.c"],
        "output": ["${out:library}"],
        **{name: [] for name in ("arch", "cuda")},  # unknown in a build
    }
