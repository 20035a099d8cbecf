"""How a user-compiled object is compiled on the user's machine: the lowered recipe that its wheel carries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import DeclaredToolchain
from gpuforge.package.contents import UserToolchain
from gpuforge.plan import packaged_compilers
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.toolchain_names import makes
from gpuforge.toolchains import registry
from gpuforge.toolchains.toolchain import CompilerCall
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


def extras(file: ManifestFile, toolkit: str) -> dict[str, tuple[str, ...]]:
    """Return the wheel's extras for the packages that compile or run its modules on the user's machine.

    They have the names of toolchains: `nvrtc`, `opencl`, `iree`.
    """
    manifest = file.manifest
    modules = [item for item in manifest.objects if item.role == "user-compiled" and item.kind == "module"]
    used = {manifest.toolchains[name].compiler for item in modules for name in item.toolchains}
    found = ((name, registry.toolchain(name).extra) for name in sorted(used))
    running = [manifest.toolchains[item.toolchain] for item in manifest.objects if item.toolchain]
    return {
        **{name: (requirement(toolkit),) for name, requirement in found if requirement},
        **{each.compiler: (line,) for each in running if (line := packaged_compilers.runs_with(each))},
    }


def call(toolchain: DeclaredToolchain, item: LoweredObject, sources: Sequence[str]) -> CompilerCall | None:
    """Return how a toolchain makes a library of some of an object's sources; None when it makes none."""
    flags = (*toolchain.flags, *item.flags)
    if registry.toolchain(toolchain.compiler).by_command:
        return CompilerCall(argv=(*toolchain.command, *flags))
    library = registry.toolchain(toolchain.compiler).library
    return library(sources, flags) if library else None


def _module_call(
    toolchain: DeclaredToolchain, item: LoweredObject, sources: Sequence[str], toolkit: str
) -> CompilerCall | None:
    """Return how a toolchain compiles its part of a set of modules: each file by itself, or a library for the CPU."""
    flags = (*toolchain.flags, *item.flags)
    module = registry.toolchain(toolchain.compiler).module
    return module(flags, toolkit) if module else call(toolchain, item, sources)


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
        made = _module_call(toolchain, item, own, toolkit)
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
    return UserToolchain(
        name=name,
        family=toolchain.compiler,
        version=toolchain.version or "",
        accepts=_accepts(file, name, toolchain),
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


def _accepts(
    file: ManifestFile, name: str, toolchain: DeclaredToolchain
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    try:
        return tuple((bound.operator, bound.numbers) for bound in bounds(toolchain.version or ""))
    except ValueError:
        raise UsageError.of(
            f"[toolchains.{name}] version: {toolchain.version} is not a range of numbers, as users' machines need",
            hint='write it as in ">=11,<15"',
            place=file.place("toolchains", name, "version"),
        ) from None
