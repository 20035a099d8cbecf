"""Which compilers make an object: those of its recipe on the user's machine, and those from a package of the index."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from packaging.utils import canonicalize_name

from gpuforge.cuda.kernels import KernelImage
from gpuforge.cuda.version import major_of
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import UsageError
from gpuforge.manifest import braces
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import DeclaredToolchain, Manifest, Object
from gpuforge.package.contents import UserToolchain
from gpuforge.plan.cell import Cell
from gpuforge.plan.source_files import LoweredObject
from gpuforge.toolchain_names import OWN, makes
from gpuforge.toolchains import registry
from gpuforge.toolchains.toolchain import CompilerCall, PackagedCompiler
from gpuforge.toolchains.user_compilers import bounds


def toolchains(file: ManifestFile, item: LoweredObject, toolkit: str) -> tuple[UserToolchain, ...]:
    """Return the toolchains of a user-compiled object in the order they are tried.

    Each has all that is needed to find the compiler, to judge its version and to call it. Raises UsageError for a
    toolchain that cannot make this kind of object, for a version range that needs `packaging` to evaluate it and, in a
    set of modules, for a toolchain without sources or a source without a toolchain.
    """
    found = tuple(_lowered(file, item, index, name, toolkit) for index, name in enumerate(item.toolchains))
    left = [source for source in item.sources if not any(source in each.sources for each in found)]
    if item.kind == "module" and left:
        raise UsageError.of(
            f"object {item.name!r}: none of its toolchains compiles {left[0]}",
            hint=f"which compiler compiles which files: {_suffixes()}; list files that are only included in `headers`",
            place=file.place("objects", item.number, "sources"),
        )
    return found


def extras(manifest: Manifest, toolkit: str) -> dict[str, tuple[str, ...]]:
    """Return the wheel's extras for the packages that compile or run its modules on the user's machine.

    They have the names of toolchains: `nvrtc`, `opencl`, `iree`.
    """
    modules = [item for item in manifest.objects if item.role == "user-compiled" and item.kind == "module"]
    used = {manifest.toolchains[name].compiler for item in modules for name in item.toolchains}
    found = ((name, registry.toolchain(name).extra) for name in sorted(used))
    running = [manifest.toolchains[item.toolchain] for item in manifest.objects if item.toolchain]
    return {
        **{name: (requirement(toolkit),) for name, requirement in found if requirement},
        **{each.compiler: (line,) for each in running if (line := runs_with(each))},
    }


def call(toolchain: DeclaredToolchain, item: LoweredObject, sources: Sequence[str]) -> CompilerCall | None:
    """Return how a toolchain makes a library of some of an object's sources; None when it makes none."""
    flags = (*toolchain.flags, *item.flags)
    if registry.toolchain(toolchain.compiler).by_command:
        return CompilerCall(argv=(*toolchain.command, *flags))
    library = registry.toolchain(toolchain.compiler).library
    made = library(sources, flags) if library else None
    if made and item.program:
        return replace(made, argv=tuple(word for word in made.argv if word != "-shared"))
    return made


def _lowered(file: ManifestFile, item: LoweredObject, index: int, name: str, toolkit: str) -> UserToolchain:
    toolchain = item.toolchains[name]
    place = file.place("objects", item.number, "toolchains", index)
    own = item.sources
    if item.kind == "module":
        suffixes = registry.toolchain(toolchain.compiler).compiles
        own = tuple(source for source in own if PurePosixPath(source).suffix in suffixes)
        if not own:
            raise UsageError.of(
                f"object {item.name!r}: {toolchain.compiler} compiles none of its sources",
                hint=f"add one that ends with {' or '.join(suffixes)}, or remove the toolchain",
                place=place,
            )
        # each file by itself, or a library for the CPU
        module = registry.toolchain(toolchain.compiler).module
        flags = (*toolchain.flags, *item.flags)
        made = module(flags, toolkit) if module else call(toolchain, item, own)
    else:
        made = call(toolchain, item, own)
    if made is None:
        able = [each.name for each in registry.toolchains() if each.library or each.by_command]
        raise UsageError.of(
            f"object {item.name!r}: {toolchain.compiler} sources cannot be shipped yet",
            hint=f"choose among {', '.join(able)}",
            place=place,
        )
    plug_in = registry.toolchain(toolchain.compiler)
    family = plug_in.program
    version = toolchain.version or made.version
    return UserToolchain(
        name=name,
        family=toolchain.compiler,
        version=version,
        accepts=_accepts(file, name, version),
        programs=family.programs.pattern if family else "",
        answers=family.answers if family else "",
        places=tuple(family.places) if family else (),
        argv=tuple(made.argv),
        product=toolchain.product or "",
        offload=made.offload,
        runtimes=tuple(made.runtimes),
        install={"": toolchain.install} if toolchain.install else dict(made.install),
        makes=made.makes,
        sources=own,
        devices=toolchain.devices,
        extensions=toolchain.extensions,
        by_command=plug_in.by_command,
        of_toolkit=plug_in.of_toolkit,
    )


def _suffixes() -> str:
    """Return the suffixes of the files that toolchains compile in a set of modules: "nvcc .cu, opencl .cl"."""
    able = [
        each for each in registry.toolchains() if each.module or (each.library and makes(each.name, "module"))
    ]
    return ", ".join(f"{each.name} {' '.join(each.compiles)}" for each in able)


def _accepts(file: ManifestFile, name: str, version: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    try:
        return tuple((bound.operator, bound.numbers) for bound in bounds(version))
    except ValueError:
        raise UsageError.of(
            f"[toolchains.{name}] version: {version} is not a range of numbers, as users' machines need",
            hint='write it as in ">=11,<15"',
            place=file.place("toolchains", name, "version"),
        ) from None


def by_command(manifest: Manifest) -> dict[str, str]:
    """Return the fallbacks by a command that makes their object on users' machines, too, with its program."""
    objects = {item.name: item for item in manifest.objects}
    made = ((item, objects.get(item.stands_in_for or "")) for item in manifest.objects if item.toolchain)
    return {
        item.name: manifest.toolchain_of(item).command[0]
        for item, other in made
        if other
        and item.toolchain in other.toolchains
        and registry.toolchain(manifest.toolchain_of(item).compiler).by_command
    }


def of_modules() -> list[str]:
    """Return the names of gpuforge's own toolchains that compile modules for a wheel."""
    return [name for name in OWN if "fallback module" in registry.toolchain(name).uses]


def runs_with(toolchain: DeclaredToolchain) -> str:
    """Return the requirement that users need to run a toolchain's modules; "" if they need none."""
    package = registry.toolchain(toolchain.compiler).packaged
    return f"{package.runs_with}{toolchain.version or ''}" if package and package.runs_with else ""


def packaged_images(manifest: Manifest, item: Object, machine: str) -> tuple[KernelImage, ...]:
    """Return the images that a fallback's targets give in a wheel for a machine type."""
    toolchain = manifest.toolchain_of(item)
    package = registry.toolchain(toolchain.compiler).packaged
    targets = package.targets(toolchain.targets, machine) if package else ()
    return tuple(target.image for target in targets)


def wrong_targets(file: ManifestFile, name: str, cells: Sequence[Cell]) -> Iterator[Diagnostic]:
    """Yield `targets` of a toolchain that has none, and those that its compiler does not know."""
    toolchain = file.manifest.toolchains[name]
    package = registry.toolchain(toolchain.compiler).packaged
    place = file.place("toolchains", name, "targets")
    if package is None:
        if toolchain.targets:
            yield Diagnostic(
                f"[toolchains.{name}] targets: {toolchain.compiler} takes none",
                place,
                "leave it out; [cuda.*] archs chooses the architectures of nvcc, and `cpu` the CPUs of a library",
            )
        return
    if package.runs_with and toolchain.version is None:
        yield Diagnostic(
            f"[toolchains.{name}] needs `version`: users' {package.runs_with} must be of the release that compiled",
            file.place("toolchains", name),
            'name one minor release, for example version = ">=3.13,<3.14"',
        )
    for machine in dict.fromkeys(cell.machine for cell in cells):
        try:
            package.targets(toolchain.targets, machine)
        except ValueError as error:
            yield Diagnostic(f"[toolchains.{name}] targets: {error}", place)


def wrong_objects(
    file: ManifestFile, number: int, item: Object, package: PackagedCompiler
) -> Iterator[Diagnostic]:
    """Yield an object whose kind, sources or CPU levels its compiler cannot serve."""
    compiler = file.manifest.toolchain_of(item).compiler
    title, place = f"object {item.name!r}", file.place("objects", number, "toolchain")
    if item.kind != package.makes:
        hint = f'write kind = "{package.makes}"'
        yield Diagnostic(f"{title}: {compiler} cannot make a {item.kind}", place, hint)
    suffixes = registry.toolchain(compiler).compiles
    for pattern_number, pattern in enumerate(item.sources):
        if PurePosixPath(pattern).suffix not in suffixes:
            yield Diagnostic(
                f"{title}: {compiler} does not compile {pattern}",
                file.place("objects", number, "sources", pattern_number),
                f"its sources end with {' or '.join(suffixes)}; list files that they read in `headers`",
            )
    if item.cpu:
        yield Diagnostic(
            f"{title} has `cpu`, but {compiler} has `targets`",
            file.place("objects", number, "cpu"),
            f"list the levels there: [toolchains.{item.toolchain}] targets",
        )


def label_of(manifest: Manifest, cell: Cell) -> str:
    """Return what the naming `local` appends to the version of a cell's wheel; `manifest` is that of its axes."""
    major = str(major_of(cell.toolkit))
    if manifest.wheel.label is None:
        return ".".join([f"cu{major}", *(f"{name}{value}" for name, value in cell.axes)])
    return _with_cuda(manifest.wheel.label, cell.toolkit)


def _with_cuda(text: str, toolkit: str) -> str:
    values = (toolkit.replace(".", ""), str(major_of(toolkit)))
    return braces.fill(text, dict(zip(braces.OF_LABEL, values, strict=True)))


def indexes_of(manifest: Manifest, toolkit: str) -> dict[str, str]:
    """Return the packages that have an index of their own, for the toolkit "13.0", each with its address."""
    return {canonicalize_name(name): _with_cuda(url, toolkit) for name, url in manifest.indexes.items()}


def names_cuda(manifest: Manifest) -> bool:
    """Return whether such an index depends on the toolkit."""
    return indexes_of(manifest, "1.0") != indexes_of(manifest, "2.0")
