"""Lay a fallback's libraries out as they go into a wheel, with an index of the GPUs or CPUs that each runs on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuforge.binary import ptx
from gpuforge.binary.fatbin import containers
from gpuforge.binary.runnable import common_images
from gpuforge.cuda.kernels import KernelImage
from gpuforge.errors import ActionError
from gpuforge.package import kernel_set
from gpuforge.package.contents import CompiledLibrary
from gpuforge.plan.requests.kernels import IndexLibraries
from gpuforge.runtime.image_kind import kind_of
from gpuforge.steps import entry, lay_kernels


def main(spec: IndexLibraries) -> None:
    """Write `kernels/<object>` below `output`."""
    lay_kernels.lay(spec.output, lambda: _pack(spec))


def _pack(spec: IndexLibraries) -> Path:
    name = spec.made.name
    libraries = tuple(replace(made, images=library_images(name, made)) for made in spec.made.libraries)
    toolchain = lay_kernels.made_by(spec.made.toolchain, spec.package)
    return kernel_set.pack_libraries(
        spec.output, replace(spec.made, toolchain=toolchain, libraries=libraries)
    )


def library_images(name: str, made: CompiledLibrary) -> tuple[KernelImage, ...]:
    """Return the GPUs or CPUs that a library runs on.

    Raises ActionError if it should have GPU code and has none, or code for another GPU than the requested one.
    """
    if any(kind_of(image.kind).built_for == "CPU" for image in made.images):
        return made.images
    found_code = containers(made.path) or ptx.embedded(made.path.read_bytes())
    found = common_images(found_code)
    if not found:
        raise ActionError.of(
            f"the library of object {name!r} has GPU code for different GPUs: no GPU can run all of it"
            if found_code
            else f"the library of object {name!r} has no GPU code",
            hint="its sources need a __global__ function, and its flags no other architectures than the manifest's",
        )
    if made.images and {entry.arch for entry in found} != {image.built_for for image in made.images}:
        requested, present = (", ".join(sorted({each.target for each in s})) for s in (made.images, found))
        raise ActionError.of(
            f"a library of object {name!r} was compiled for {requested} and has GPU code for {present}",
            hint="leave flags that choose the target to `targets` of the toolchain",
        )
    return tuple(KernelImage(entry.kind, entry.arch, entry.isa) for entry in found)


if __name__ == "__main__":
    entry.run(IndexLibraries, main)
