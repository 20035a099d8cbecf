"""Lay an object's kernels out as they go into a wheel: fatbins with an index, or sources with a recipe."""

from __future__ import annotations

import json
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from gpuforge import digest, disk
from gpuforge.binary import ptx
from gpuforge.binary.device_code import containers
from gpuforge.binary.runnable import common_images
from gpuforge.errors import ActionError, UsageError
from gpuforge.package import kernel_set, source_set
from gpuforge.plan.requests.kernels import CompiledBy, CompiledLibrary, KernelIndex
from gpuforge.steps import entry
from gpuforge.steps.module_images import images_of
from gpuforge.wheel import unpacked


def main(spec: KernelIndex) -> None:
    """Write `kernels/<object>` or `sources/<object>` below `output`."""
    with disk.errors_at(spec.output):
        spec.output.mkdir(parents=True, exist_ok=True)
        made = (fallback if spec.role == "fallback" else user_compiled)(spec, spec.output)
    for file in unpacked.files(made):
        print(f"{file.relative_to(spec.output)}: {file.stat().st_size} bytes")


def fallback(spec: KernelIndex, folder: Path) -> Path:
    """Index the images that are really in the fatbins; raises ActionError for a file that is no fatbin."""
    if spec.toolchain and spec.libraries:
        return kernel_set.pack_libraries(
            folder,
            name=spec.name,
            toolchain=made_by(spec.toolchain),
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
        raise UsageError.of(f"fallback object {spec.name!r} wants a toolchain and modules")
    modules = [
        kernel_set.KernelModule(
            name=module.name,
            source=module.source,
            digest=digest.of_file(module.path),
            fatbin=module.fatbin,
            images=images_of(module),
            target=module.target,
            suffix=module.suffix,
        )
        for module in spec.modules
    ]
    return kernel_set.pack_modules(
        folder,
        name=spec.name,
        toolchain=made_by(spec.toolchain),
        toolkit=spec.toolkit,
        modules=modules,
        stands_in_for=spec.stands_in_for,
        cpu=spec.cpu,
        install=spec.install,
    )


def made_by(compiler: CompiledBy) -> kernel_set.Toolchain:
    """Return a compiler with its version; that of a package is in the list of the wheels that brought it."""
    version = compiler.version
    if compiler.lock:
        files = json.loads(compiler.lock.read_bytes())["wheels"]
        found = (parse_wheel_filename(file) for file in files)
        project = canonicalize_name(compiler.package)
        version = next(str(release) for name, release, *_ in found if name == project)
    return kernel_set.Toolchain(compiler.family, version)


def user_compiled(spec: KernelIndex, folder: Path) -> Path:
    """Lay out the sources, what they include, and the recipe."""
    return source_set.pack_sources(
        folder,
        name=spec.name,
        sources={source.source: source.path for source in spec.sources},
        includes={source.source: source.path for source in spec.includes},
        toolchains=[source_set.Recipe(**{**vars(t), "version": t.version or ""}) for t in spec.toolchains],
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
    found_code = containers(made.path) or ptx.embedded(made.path.read_bytes())
    found = common_images(found_code)
    if not found:
        raise ActionError.of(
            f"the library of object {name!r} has GPU code that no one GPU could run all of"
            if found_code
            else f"the library of object {name!r} has no GPU code",
            hint="its sources need a __global__ function, and the flags the architectures of the manifest alone",
        )
    return tuple(kernel_set.KernelImage(entry.kind, entry.target, entry.isa) for entry in found)


if __name__ == "__main__":
    entry.run(KernelIndex, main)
