"""Compilers from a package of the index: the images that they make, and what they cannot compile."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from gpuforge.cuda.kernels import KernelImage
from gpuforge.diagnostics import Diagnostic
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import DeclaredToolchain, Manifest, Object
from gpuforge.plan import abi
from gpuforge.plan.cell import Cell
from gpuforge.toolchain_names import OWN
from gpuforge.toolchains import registry
from gpuforge.toolchains.toolchain import PackagedCompiler


def of_modules() -> list[str]:
    """Return the names of gpuforge's own toolchains that compile modules for a wheel."""
    return [name for name in OWN if "fallback module" in registry.toolchain(name).uses]


def runs_with(toolchain: DeclaredToolchain) -> str:
    """Return the requirement that users need to run a toolchain's modules; "" if they need none."""
    package = registry.toolchain(toolchain.compiler).packaged
    return f"{package.runs_with}{toolchain.version or ''}" if package and package.runs_with else ""


def images(manifest: Manifest, item: Object) -> tuple[KernelImage, ...]:
    """Return the images that a fallback's targets give, on any machine."""
    toolchain = manifest.toolchain_of(item)
    package = registry.toolchain(toolchain.compiler).packaged
    targets = package.targets(toolchain.targets, platform.machine()) if package else ()
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
    """Yield an object whose kind, sources, CPU levels or ABI its compiler cannot serve."""
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
    if abi.packages(file, number):
        yield Diagnostic(
            f"{title}: its ABI has `packages`, which only a library made by a command can have, so far",
            place,
            'name a toolchain with compiler = "command"',
        )
