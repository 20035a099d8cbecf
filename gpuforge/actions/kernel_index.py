"""The kernels of one object of the manifest, laid out as they go into a wheel, with an index."""

from __future__ import annotations

from collections.abc import Callable
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


@dataclass(frozen=True, kw_only=True)
class IndexModules(LayingStep[P]):
    """Index the modules of a fallback: the images that are really in them."""

    modules: tuple[CompiledModule[P], ...]
    lock: P | None = None  # the wheels of the compiler's package, if its version is not known yet
    requires: str = ""  # the requirement for that package
    made: ModuleSet

    def run(self: IndexModules[Path], at: Workdir) -> None:
        """Raises ActionError for a file without the images that it should have."""
        from gpuforge.actions.module_images import images_of, kernels_of
        from gpuforge.package import kernel_set

        def pack(output: Path) -> Path:
            modules = [replace(m, images=images_of(m), kernels=kernels_of(m)) for m in self.modules]
            made = replace(self.made, toolchain=made_by(self.made.toolchain, self.requires, self.lock))
            return kernel_set.pack_modules(output, made, modules, self.sources)

        lay(at, pack)


@dataclass(frozen=True, kw_only=True)
class IndexLibraries(LayingStep[P]):
    """Index the libraries of a fallback: the GPUs or the level of CPUs that each is for."""

    libraries: tuple[CompiledLibrary[P], ...]
    lock: P | None = None  # the wheels of the compiler's package, if its version is not known yet
    requires: str = ""  # the requirement for that package
    made: LibrarySet

    def run(self: IndexLibraries[Path], at: Workdir) -> None:
        """Raises ActionError for a library without the code that it should have."""
        from gpuforge.package import kernel_set

        def pack(output: Path) -> Path:
            found = [replace(each, images=library_images(self.made.name, each)) for each in self.libraries]
            made = replace(self.made, toolchain=made_by(self.made.toolchain, self.requires, self.lock))
            return kernel_set.pack_libraries(output, made, found)

        lay(at, pack)


@dataclass(frozen=True, kw_only=True)
class GatherSources(LayingStep[P]):
    """Gather the sources that users compile, with a recipe."""

    verb: ClassVar[str] = "gather"
    gathered: SourceSet

    def run(self: GatherSources[Path], at: Workdir) -> None:
        """Copy them."""
        from gpuforge.package import kernel_set

        lay(at, lambda output: kernel_set.pack_sources(output, self.gathered, self.sources))


def lay(at: Workdir, pack: Callable[[Path], Path]) -> None:
    """Pack a folder below the output, and print its files."""
    from gpuforge.wheel import unpacked

    output = at.output(KERNELS)
    with disk.errors_at(output):
        output.mkdir(parents=True, exist_ok=True)
        made = pack(output)
    for file in unpacked.files(made):
        print(f"{file.relative_to(output)}: {file.stat().st_size} bytes")


def made_by(compiler: CompiledBy, requires: str, lock: Path | None) -> CompiledBy:
    """Return a compiler with its version; for one from a package, the version is in the lock."""
    from gpuforge.actions import value_file
    from gpuforge.wheel.filename import LockedWheels

    if not lock:
        return compiler
    project = canonicalize_name(Requirement(requires).name)
    releases = value_file.read(LockedWheels, lock).releases()
    return replace(compiler, version=next(str(each.version) for each in releases if each.project == project))


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
