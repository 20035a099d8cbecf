"""The kernels of one object of the manifest, laid out as they go into a wheel, with an index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge import disk
from gpuforge.cuda.kernels import KernelImage
from gpuforge.errors import ActionError
from gpuforge.package.contents import (
    CompiledBy,
    CompiledLibrary,
    CompiledModule,
    LibrarySet,
    ModuleSet,
    SourceSet,
)
from gpuforge.plan.action import P, Step, Workdir

KERNELS = "kernels"  # the output


@dataclass(frozen=True, kw_only=True)
class LayingStep(Step[P]):
    """A step that lays the kernels of one object out."""

    verb: ClassVar[str] = "index"  # for the title of the action
    sources: P  # the object's sources and headers

    def run(self: LayingStep[Path], at: Workdir) -> None:
        """Pack a folder below the output, and print its files."""
        from gpuforge.wheel import unpacked

        output = at.output(KERNELS)
        with disk.errors_at(output):
            output.mkdir(parents=True, exist_ok=True)
            made = self.pack(output)
        for file in unpacked.files(made):
            print(f"{file.relative_to(output)}: {file.stat().st_size} bytes")

    def pack(self: LayingStep[Path], output: Path) -> Path:
        """Return a folder below `output` with the kernels and their index or recipe."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class IndexingStep(LayingStep[P]):
    """A step that indexes what a compiler has made."""

    lock: P | None = None  # the wheels of the compiler's package, if its version is not known yet
    requires: str = ""  # the requirement for that package

    def named(self: IndexingStep[Path], compiler: CompiledBy) -> CompiledBy:
        """Return a compiler with its version; for one from a package, the version is in the lock."""
        from gpuforge.actions import value_file
        from gpuforge.wheel.filename import LockedWheels

        if not self.lock:
            return compiler
        project = canonicalize_name(Requirement(self.requires).name)
        releases = value_file.read(LockedWheels, self.lock).releases()
        return replace(compiler, version=next(str(r.version) for r in releases if r.project == project))


@dataclass(frozen=True, kw_only=True)
class IndexModules(IndexingStep[P]):
    """Index the modules of a fallback: the images that are really in them."""

    modules: tuple[CompiledModule[P], ...]
    made: ModuleSet

    def pack(self: IndexModules[Path], output: Path) -> Path:
        """Raises ActionError for a file without the images that it should have."""
        from gpuforge.actions.module_images import images_of, kernels_of
        from gpuforge.package import kernel_set

        modules = [replace(each, images=images_of(each), kernels=kernels_of(each)) for each in self.modules]
        made = replace(self.made, toolchain=self.named(self.made.toolchain))
        return kernel_set.pack_modules(output, made, modules, self.sources)


@dataclass(frozen=True, kw_only=True)
class IndexLibraries(IndexingStep[P]):
    """Index the libraries of a fallback: the GPUs or the level of CPUs that each is for."""

    libraries: tuple[CompiledLibrary[P], ...]
    made: LibrarySet

    def pack(self: IndexLibraries[Path], output: Path) -> Path:
        """Raises ActionError for a library without the code that it should have."""
        from gpuforge.package import kernel_set

        found = [replace(each, images=library_images(self.made.name, each)) for each in self.libraries]
        made = replace(self.made, toolchain=self.named(self.made.toolchain))
        return kernel_set.pack_libraries(output, made, found)


@dataclass(frozen=True, kw_only=True)
class GatherSources(LayingStep[P]):
    """Gather the sources that users compile, with a recipe."""

    verb: ClassVar[str] = "gather"
    copied: ClassVar = ("runtime",)  # the header for errors
    gathered: SourceSet

    def pack(self: GatherSources[Path], output: Path) -> Path:
        """Copy them."""
        from gpuforge.package import kernel_set

        return kernel_set.pack_sources(output, self.gathered, self.sources)


def library_images(name: str, made: CompiledLibrary[Path]) -> tuple[KernelImage, ...]:
    """Return the GPUs or CPUs that a library runs on.

    Raises ActionError if it should have GPU code and has none, or code for another GPU than the requested one.
    """
    from gpuforge.binary import cubin, ptx
    from gpuforge.binary.fatbin import containers
    from gpuforge.binary.runnable import common_images
    from gpuforge.runtime.values import kind_of

    if any(kind_of(image.kind).built_for == "CPU" for image in made.images):
        return made.images
    data = made.path.read_bytes()
    found_code = containers(made.path) or ptx.embedded(data) or cubin.embedded(data)
    found = common_images(found_code)
    if not found:
        raise ActionError.of(
            f"the library of object {name!r} has GPU code for different GPUs: no GPU can run all of it"
            if found_code
            else f"the library of object {name!r} has no GPU code",
            hint="its sources need a __global__ function or a target region, and its flags no other architectures than "
            "the manifest's",
        )
    if made.images and {entry.arch for entry in found} != {image.built_for for image in made.images}:
        requested, present = (", ".join(sorted({each.target for each in s})) for s in (made.images, found))
        raise ActionError.of(
            f"a library of object {name!r} was compiled for {requested} and has GPU code for {present}",
            hint="leave flags that choose the target to `targets` of the toolchain",
        )
    return tuple(KernelImage(entry.kind, entry.arch, entry.isa) for entry in found)
