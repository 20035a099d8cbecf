"""Lay an object's kernels out as they go into a wheel: fatbins with an index, or sources with a recipe."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from gpuforge import digest, disk
from gpuforge.audit.runnable import common_images
from gpuforge.binary import fatbin
from gpuforge.binary.device_code import containers
from gpuforge.errors import ActionError, UsageError
from gpuforge.package import kernel_set, source_set
from gpuforge.steps import entry
from gpuforge.steps.specification import Specification
from gpuforge.wheel import unpacked

_LOADABLE = ("cubin", "ptx")  # what the driver takes as it is; LTO-IR wants a linker first


class CompiledModule(Specification):
    """One compiled source: the module's name, the source's in the project, and its file and fatbin."""

    name: str
    source: str
    path: Path
    fatbin: Path


class Source(Specification):
    """One source for the user's machine: its name in the project, and its file."""

    source: str
    path: Path


class CompiledBy(Specification):
    """The compiler that made the fatbins."""

    family: str
    version: str


class UserToolchain(Specification):
    """How one toolchain compiles the sources on the user's machine."""

    name: str
    family: str
    version: str | None = None  # a range; None: any
    accepts: tuple[tuple[str, tuple[int, ...]], ...] = ()  # the same as comparisons
    path: str = ""  # the compiler's executable, where the manifest names one
    programs: str = ""  # pattern of its file names, whose group "version" follows the plain name
    answers: str = ""  # pattern for what it prints for --version, with a group "version"
    places: tuple[str, ...] = ()  # folders beside PATH, as patterns
    argv: tuple[str, ...]  # with `{compiler}`, `{sources}` and `{output}`
    product: str = ""  # where a command leaves the library
    offload: str = ""
    runtimes: tuple[str, ...] = ()
    install: Mapping[str, str] = {}
    makes: Literal["library", "module"] = "library"
    sources: tuple[str, ...] = ()


class CompiledLibrary(Specification):
    """One compiled library; `cpu` is the level that it was compiled for, "" for any, None for GPUs."""

    path: Path
    cpu: str | None = None


class KernelSpec(Specification):
    """One object of the manifest: `fallback` has `toolchain` and `modules`, `user-compiled` has the others."""

    name: str
    role: Literal["fallback", "user-compiled"]
    toolkit: str
    toolchain: CompiledBy | None = None
    modules: tuple[CompiledModule, ...] = ()
    archs: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()  # what is given to the compiler
    includes: tuple[Source, ...] = ()  # what must lie beside it: headers
    toolchains: tuple[UserToolchain, ...] = ()
    libraries: tuple[CompiledLibrary, ...] = ()  # a fallback of kind "library"
    abi: str = ""
    packages: Mapping[str, str] = {}  # installed packages whose version is part of the ABI
    stands_in_for: str = ""  # the object that this fallback is used for
    fallbacks: tuple[str, ...] = ()  # those that stand in for this object
    kind: Literal["library", "module"] = "library"  # what is made of user-compiled sources
    cpu: str = ""  # the library that does a set's work on the CPU


def main(arguments: list[str]) -> None:
    """Write `kernels/<object>` or `sources/<object>` below `--output`, as the KernelSpec in `--spec` says."""
    parser = argparse.ArgumentParser(prog="kernel_index")
    parser.add_argument("--spec", required=True, help="a KernelSpec as JSON")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    spec = KernelSpec.parse(options.spec)
    with disk.errors_at(options.output):
        options.output.mkdir(parents=True, exist_ok=True)
        made = (fallback if spec.role == "fallback" else user_compiled)(spec, options.output)
    for file in unpacked.files(made):
        print(f"{file.relative_to(options.output)}: {file.stat().st_size} bytes")


def fallback(spec: KernelSpec, folder: Path) -> Path:
    """Index the images that are really in the fatbins; raises ActionError for a file that is no fatbin."""
    if spec.toolchain and spec.libraries:
        return kernel_set.pack_libraries(
            folder,
            name=spec.name,
            toolchain=kernel_set.Toolchain(spec.toolchain.family, spec.toolchain.version),
            toolkit=spec.toolkit,
            libraries=[
                kernel_set.KernelLibrary(made.path, library_images(spec.name, made))
                for made in spec.libraries
            ],
            abi=spec.abi,
            packages=spec.packages,
            stands_in_for=spec.stands_in_for,
            fallbacks=spec.fallbacks,
        )
    if spec.toolchain is None or not spec.modules:
        raise UsageError.of(f"--spec: fallback object {spec.name!r} wants a toolchain and modules")
    modules = [
        kernel_set.KernelModule(
            name=module.name,
            source=module.source,
            digest=digest.of_file(module.path),
            fatbin=module.fatbin,
            images=images_of(module),
        )
        for module in spec.modules
    ]
    made_by = kernel_set.Toolchain(spec.toolchain.family, spec.toolchain.version)
    return kernel_set.pack_modules(
        folder,
        name=spec.name,
        toolchain=made_by,
        toolkit=spec.toolkit,
        modules=modules,
        stands_in_for=spec.stands_in_for,
        cpu=spec.cpu,
    )


def user_compiled(spec: KernelSpec, folder: Path) -> Path:
    """Lay out the sources, what they include, and the recipe."""
    return source_set.pack_sources(
        folder,
        name=spec.name,
        sources={source.source: source.path for source in spec.sources},
        includes={source.source: source.path for source in spec.includes},
        toolchains=[source_set.Recipe(**{**dict(t), "version": t.version or ""}) for t in spec.toolchains],
        abi=spec.abi,
        kind=spec.kind,
        packages=spec.packages,
        fallbacks=spec.fallbacks,
        cpu=spec.cpu,
        toolkit=spec.toolkit,
        archs=spec.archs,
    )


def library_images(name: str, made: CompiledLibrary) -> tuple[kernel_set.KernelImage, ...]:
    """Return what a library runs on; raises ActionError for one that should have GPU code and has none."""
    if made.cpu is not None:
        return (kernel_set.KernelImage("library", made.cpu),)
    found_code = containers(made.path)
    found = common_images(found_code)
    if not found:
        raise ActionError.of(
            f"the library of object {name!r} has GPU code that no one GPU could run all of"
            if found_code
            else f"the library of object {name!r} has no GPU code",
            hint="its sources need a __global__ function, and the flags the architectures of the manifest alone",
        )
    return tuple(kernel_set.KernelImage(entry.kind, entry.target, entry.isa) for entry in found)


def images_of(module: CompiledModule) -> tuple[kernel_set.KernelImage, ...]:
    """Read the images of a fatbin, as many as the driver can load."""
    containers = list(fatbin.scan(module.fatbin.read_bytes()))
    if not containers or any(container.damaged for container in containers):
        raise ActionError.of(
            f"what was compiled from {module.source} is no sound fatbin",
            hint="the compiler must be called with -fatbin and have the disk space to finish",
        )
    return tuple(
        kernel_set.KernelImage(image.kind, image.target, image.isa)
        for container in containers
        for image in container.entries
        if image.kind in _LOADABLE
    )


if __name__ == "__main__":
    entry.run(main)
