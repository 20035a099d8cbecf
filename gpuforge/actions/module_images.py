"""The images of a compiled module and their kernels: all loadable images of a fatbin, or the one that was requested."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

from gpuforge.binary import fatbin, kernels, ptx
from gpuforge.binary.facts import FatbinEntry
from gpuforge.cuda.kernels import Kernel, KernelImage
from gpuforge.cuda.version import numbers_of
from gpuforge.diagnostics import Place
from gpuforge.errors import ActionError, MalformedError
from gpuforge.package.contents import CompiledModule
from gpuforge.runtime.values import kind_of

# IREE's modules are ZIP archives, too, where the names of the members say for which back end they are
# (`--iree-vm-emit-polyglot-zip`, the compiler's default).
_FORMATS = {
    "iree-cuda": "_cuda_nvptx_fb.fb",
    "iree-vulkan": "_vulkan_spirv_fb.fb",
    "iree-cpu": ".so",  # an ELF file that IREE's runtime loads by itself
}


def images_of(module: CompiledModule[Path]) -> tuple[KernelImage, ...]:
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


def kernels_of(module: CompiledModule[Path]) -> tuple[Kernel, ...]:
    """Return the kernels of a module, the same in each of its images; none for an IREE module, which is not read.

    Raises ActionError if its images have different ones, or none.
    """
    data, found = module.compiled.read_bytes(), {}
    try:
        if not module.images:
            for image, content in fatbin.images(data):
                about = kind_of(image.kind)
                if about.loader == "CUDA":
                    read = kernels.of_ptx if about.has_ptx else kernels.of_cubin
                    found[f"{about.label} {image.target}"] = read(content)
        elif kind_of(module.images[0].kind).loader == "CUDA":
            found[module.target] = kernels.of_ptx(data)
        else:
            return ()
    except MalformedError as error:
        raise ActionError.of(
            f"its kernels cannot be read from what the compiler made: {error.diagnostics[0].message}",
            hint="please report it, with the compiler's version and the source",
            place=Place(module.source),
        ) from error
    if not found:
        return ()
    (first, expected), *others = found.items()
    for label, each in others:
        if each != expected:
            raise _different(module, first, label, each.items() ^ expected.items())
    if not expected:
        raise ActionError.of(
            "this module has no kernel",
            hint=(
                "declare its kernels __global__, and instantiate those that are templates; a file with __device__ "
                "functions alone is included by others, and does not belong in `sources`"
            ),
            place=Place(module.source),
        )
    return kernels.with_types(expected)


def _different(
    module: CompiledModule[Path], first: str, other: str, items: Iterable[tuple[str, kernels.Sizes]]
) -> ActionError:
    named = {kernel.name for kernel in kernels.with_types(dict(items))}
    return ActionError.of(
        f"{first} and {other} have different kernels: {', '.join(sorted(named))}",
        hint="declare each kernel, with the same parameters, for every architecture: __CUDA_ARCH__ may choose its body",
        place=Place(module.source),
    )


def _of_fatbin(module: CompiledModule[Path]) -> tuple[KernelImage, ...]:
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


def _of_iree(module: CompiledModule[Path], expected: KernelImage) -> tuple[FatbinEntry, ...]:
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


def _other(module: CompiledModule[Path], found: str) -> ActionError:
    return ActionError.of(
        f"{module.source} was compiled for {module.target} and has {found}",
        hint="leave flags that choose the target to `targets` of the toolchain",
    )
