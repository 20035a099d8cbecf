"""The images of a compiled module: every loadable image of a fatbin, or the single image that was requested."""

from __future__ import annotations

import zipfile
from pathlib import Path

from gpuforge.binary import fatbin, ptx
from gpuforge.binary.facts import FatbinEntry
from gpuforge.cuda.image_kind import kind_of
from gpuforge.cuda.kernel_image import KernelImage
from gpuforge.cuda.version import numbers_of
from gpuforge.embedded.object_sets import CompiledModule
from gpuforge.errors import ActionError

# IREE's modules are ZIP archives, too, where the names of the members say for which back end they are
# (`--iree-vm-emit-polyglot-zip`, the compiler's default).
_FORMATS = {
    "iree-cuda": "_cuda_nvptx_fb.fb",
    "iree-vulkan": "_vulkan_spirv_fb.fb",
    "iree-cpu": ".so",  # an ELF file that IREE's runtime loads by itself
}


def images_of(module: CompiledModule) -> tuple[KernelImage, ...]:
    """Return the images in a module's file; raises ActionError if they are not the requested ones."""
    if not module.images:
        return _of_fatbin(module)
    (expected,) = module.images
    about = kind_of(expected.kind)
    if about.loader == "IREE":
        entries = _of_iree(module, expected)
        if not about.has_ptx:
            return (expected,)
    elif about.has_ptx:
        data = module.compiled.read_bytes()
        found = ptx.standalone(data, len(data))
        entries = found.entries if found else ()
    else:
        raise ActionError.of(
            f"{module.source}: a toolchain makes a module of the unknown kind {expected.kind!r}",
            hint="correct the plug-in: docs/toolchains.md lists the kinds",
        )
    if {entry.arch for entry in entries} != {expected.built_for}:
        names = ", ".join(sorted({entry.target for entry in entries})) or "no PTX"
        raise _other(module, names)
    newest = max(entries, key=lambda entry: numbers_of(entry.isa))
    return (expected._replace(isa=newest.isa),)


def _of_fatbin(module: CompiledModule) -> tuple[KernelImage, ...]:
    containers = list(fatbin.scan(module.compiled.read_bytes()))
    if not containers or any(container.damaged for container in containers):
        raise ActionError.of(
            f"what was compiled from {module.source} is not an intact fatbin",
            hint="the compiler must be called with -fatbin and have the disk space to finish",
        )
    return tuple(
        KernelImage(image.kind, image.arch, image.isa)
        for container in containers
        for image in container.entries
        if kind_of(image.kind).loader == "CUDA"
    )


def _of_iree(module: CompiledModule, expected: KernelImage) -> tuple[FatbinEntry, ...]:
    """Return the PTX in an IREE module for CUDA; nothing for other back ends."""
    code = [name for name in _members(module.compiled) if name != "module.fb"]
    wrong = [name for name in code if not name.endswith(_FORMATS[expected.kind])]
    if wrong or not code:
        raise _other(
            module, ", ".join(wrong) or "no code at all: a function that computes nothing on a device"
        )
    if not kind_of(expected.kind).has_ptx:
        return ()
    return tuple(entry for each in ptx.embedded(module.compiled.read_bytes()) for entry in each.entries)


def _members(file: Path) -> list[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ActionError.of(
            f"{file.name} is not an IREE module ({error})",
            hint="leave --iree-vm-emit-polyglot-zip as it is",
        ) from error


def _other(module: CompiledModule, found: str) -> ActionError:
    return ActionError.of(
        f"{module.source} was compiled for {module.target} and has {found}",
        hint="leave flags that choose the target to `targets` of the toolchain",
    )
