"""Lay a fallback's libraries out as they go into a wheel, with an index of the GPUs or CPUs that each runs on."""

from __future__ import annotations

from pathlib import Path

from gpuforge.binary import ptx
from gpuforge.binary.device_code import containers
from gpuforge.binary.runnable import common_images
from gpuforge.cuda.image_kind import kind_of
from gpuforge.cuda.kernel_image import KernelImage
from gpuforge.errors import ActionError
from gpuforge.package import kernel_set
from gpuforge.plan.requests.kernels import CompiledLibrary, IndexLibraries
from gpuforge.steps import entry, lay_kernels


def main(spec: IndexLibraries) -> None:
    """Write `kernels/<object>` below `output`."""
    lay_kernels.lay(spec.output, lambda: _pack(spec))


def _pack(spec: IndexLibraries) -> Path:
    return kernel_set.pack_libraries(
        spec.output,
        name=spec.name,
        toolchain=lay_kernels.made_by(spec.toolchain),
        toolkit=spec.toolkit,
        libraries=[
            kernel_set.KernelLibrary(made.path, library_images(spec.name, made)) for made in spec.libraries
        ],
        abi=spec.abi,
        packages=spec.packages,
        stands_in_for=spec.stands_in_for,
        fallbacks=spec.fallbacks,
    )


def library_images(name: str, made: CompiledLibrary) -> tuple[KernelImage, ...]:
    """Return the GPUs or CPUs that a library runs on.

    Raises ActionError if it should have GPU code and has none, or code for another GPU than the requested one.
    """
    if made.image and kind_of(made.image.kind).built_for == "CPU":
        return (made.image,)
    found_code = containers(made.path) or ptx.embedded(made.path.read_bytes())
    found = common_images(found_code)
    if not found:
        raise ActionError.of(
            f"the library of object {name!r} has GPU code for different GPUs: no GPU can run all of it"
            if found_code
            else f"the library of object {name!r} has no GPU code",
            hint="its sources need a __global__ function, and its flags no other architectures than the manifest's",
        )
    if made.image and {entry.arch for entry in found} != {made.image.built_for}:
        raise ActionError.of(
            f"a library of object {name!r} was compiled for {made.image.target} and has GPU code for "
            + ", ".join(sorted({entry.target for entry in found})),
            hint="leave flags that choose the target to `targets` of the toolchain",
        )
    return tuple(KernelImage(entry.kind, entry.arch, entry.isa) for entry in found)


if __name__ == "__main__":
    entry.run(IndexLibraries, main)
