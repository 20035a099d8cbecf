"""The objects whose sources become kernels, once nothing about them is optional: files, toolchains, ABI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpuforge.digest import Contents
from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import DeclaredToolchain, Role
from gpuforge.package.contents import CompiledBy, LibrarySet, ModuleSet
from gpuforge.plan import abi, source_files
from gpuforge.plan.action import FileInput


@dataclass(frozen=True)
class LoweredObject:
    """An object of the manifest that has sources. Names of files are relative to the manifest's folder."""

    name: str
    number: int  # its index among the manifest's objects
    role: Role
    kind: Literal["library", "module"]
    toolchains: Mapping[str, DeclaredToolchain]  # by name, in the order they are tried; a fallback has one
    flags: tuple[str, ...]
    levels: tuple[str, ...]  # of CPUs, each with a library; none: one library
    files: FileInput  # sources and headers
    sources: tuple[str, ...]  # what is compiled
    headers: frozenset[str]  # what each source may include
    abi: str  # the id of its ABI, or ""
    abi_packages: Mapping[
        str, str
    ]  # installed packages that are part of its ABI, with what counts of their versions
    stands_in_for: str  # the object that this fallback replaces, or ""
    fallbacks: tuple[str, ...]  # those of the same kind that replace this object
    cpu: str  # the library that does the work of a set of modules on the CPU, or ""
    in_kernels_wheel: bool

    @property
    def toolchain(self) -> DeclaredToolchain:
        """The toolchain of a fallback."""
        (only,) = self.toolchains.values()
        return only

    @property
    def abi_macro(self) -> str:
        """The compiler's option for the id that `runtime/abi.c` puts into a library."""
        return f'-DGPUFORGE_ABI_ID="{self.abi}"'

    def module_set(self, toolkit: str, made_by: CompiledBy, *, install: str = "") -> ModuleSet:
        """Return the set of a fallback's modules, without them; `install` is the command for what runs them."""
        return ModuleSet(
            name=self.name,
            toolkit=toolkit,
            toolchain=made_by,
            stands_in_for=self.stands_in_for,
            cpu=self.cpu,
            install=install,
        )

    def library_set(self, toolkit: str, made_by: CompiledBy) -> LibrarySet:
        """Return the set of a fallback's libraries, without them."""
        return LibrarySet(
            name=self.name,
            toolkit=toolkit,
            toolchain=made_by,
            abi=self.abi,
            packages=self.abi_packages,
            stands_in_for=self.stands_in_for,
            fallbacks=self.fallbacks,
        )

    def files_for(self, source: str) -> FileInput:
        """Return what the compilation of one source reads: the source itself, and every header."""
        return source_files.part(self.files, {source, *self.headers})


def lower_objects(file: ManifestFile, contents: Contents) -> tuple[LoweredObject, ...]:
    """Return the manifest's objects that have sources; raises UsageError for a pattern that matches nothing."""
    return tuple(
        _lower(file, number, contents) for number, item in enumerate(file.manifest.objects) if item.sources
    )


def _lower(file: ManifestFile, number: int, contents: Contents) -> LoweredObject:
    manifest = file.manifest
    item = manifest.objects[number]
    names = [item.toolchain] if item.toolchain else item.toolchains
    return LoweredObject(
        name=item.name,
        number=number,
        role=item.role,
        kind=item.kind,
        toolchains={name: manifest.toolchains[name] for name in names},
        flags=item.flags,
        levels=item.cpu,
        files=source_files.files(file.folder, source_files.matches(file, number), contents),
        sources=source_files.matching(file, number, "sources"),
        headers=frozenset(source_files.matching(file, number, "headers")),
        abi=abi.identity(file, number, contents),
        abi_packages=abi.packages(file, number),
        stands_in_for=item.stands_in_for or "",
        fallbacks=abi.fallbacks_of(manifest, item),
        cpu=abi.cpu_of(manifest, item),
        in_kernels_wheel=kernels_wheels.in_kernels_wheel(manifest, item),
    )
