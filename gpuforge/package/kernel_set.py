"""Sets of a wheel: kernels, with an index of their images, and sources, with a recipe for users' machines."""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

from gpuforge import digest
from gpuforge.cuda.kernels import Kernel, KernelImage
from gpuforge.errors import ActionError
from gpuforge.package import import_package
from gpuforge.package.contents import (
    ERRORS_H,
    CompiledLibrary,
    CompiledModule,
    LibrarySet,
    ModuleSet,
    SourceSet,
    UserToolchain,
)
from gpuforge.runtime import document
from gpuforge.runtime.declarations import declared
from gpuforge.runtime.layout import HOME, INDEX, KERNELS, RECIPE, SOURCES
from gpuforge.runtime.userbuild.gpu_code import refused_by_openmp
from gpuforge.runtime.values import kind_of

SCHEMA = 1


def pack_modules(
    folder: Path, made: ModuleSet, modules: Iterable[CompiledModule[Path]], sources: Path
) -> Path:
    """Write compiled modules below `folder` in the layout of the wheel; return `folder/kernels/<name>`.

    `sources` is the project's folder. `index.json` (schema 1) lists for each module its source with a digest, its file
    with a digest, and its images. Raises ActionError for two sources whose modules have one name, and for a module
    without images.
    """
    target = new_folder(folder / KERNELS, made.name)
    listed = []
    taken: dict[str, str] = {}
    for module in sorted(modules, key=lambda m: m.name):
        if taken.setdefault(module.name, module.source) != module.source:
            raise ActionError.of(
                f"object {made.name!r} has two sources that give a module {module.name!r}: {module.source} is one",
                hint="rename one of the sources: a module has its source's name without the suffix",
            )
        if not module.images:
            raise ActionError.of(
                f"{module.compiled.name}, compiled from {module.source}, holds no GPU image",
                hint="check the architectures of the manifest and the compiler's log",
            )
        listed.append(_module(module, sources, target))
    index = {
        **_head(made, "module"),
        "modules": listed,
        **({"stands-in-for": made.stands_in_for} if made.stands_in_for else {}),
        **({"cpu": made.cpu} if made.cpu else {}),
        **({"install": made.install} if made.install else {}),
    }
    write_json(target / INDEX, index)
    return target


def pack_libraries(folder: Path, made: LibrarySet, libraries: Sequence[CompiledLibrary[Path]]) -> Path:
    """Write compiled libraries below `folder` in the layout of the wheel; return `folder/kernels/<name>`.

    Raises ActionError for two libraries of one target, and for GPU code that its own runtime does not load.
    """
    target = new_folder(folder / KERNELS, made.name)
    listed = []
    for library in libraries:
        if refusal := refused_by_openmp(library.path):
            raise ActionError.of(f"what was compiled for object {made.name!r} does not run: {refusal}")
        image = library.images[0]
        level = image.target if kind_of(image.kind).built_for == "CPU" or len(libraries) > 1 else ""
        stem = f"{made.name}-{level}" if level else made.name
        file = stem if made.program else f"lib{stem}.so"
        if (target / file).exists():
            raise ActionError.of(
                f"object {made.name!r} has two libraries for {level or 'every CPU'}",
                hint="list each target once, and leave flags that choose the target to these lists",
            )
        shutil.copyfile(library.path, target / file)
        listed.append({"file": file, **_measure(target / file), "images": [*map(_image, library.images)]})
    index = {
        **_head(made, "library"),
        "abi": made.abi,
        **({"packages": dict(made.packages)} if made.packages else {}),
        "stands-in-for": made.stands_in_for,
        "fallbacks": list(made.fallbacks),
        **({"program": True} if made.program else {}),
        "libraries": listed,
    }
    write_json(target / INDEX, index)
    return target


def _head(made: ModuleSet | LibrarySet, kind: str) -> dict[str, Any]:
    """Return the keys that every index begins with."""
    return {
        "schema": SCHEMA,
        "name": made.name,
        "kind": kind,
        "toolchain": {"family": made.toolchain.family, "version": made.toolchain.version},
        "toolkit": made.toolkit,
    }


def measure_again(tree: Path, name: str) -> None:
    """Update the digests of the libraries in kernel sets of the import package `name`: repair changes libraries."""
    home = import_package.find(tree, name)
    for path in sorted((home / HOME / KERNELS).glob(f"*/{INDEX}")) if home else []:
        index = json.loads(path.read_text(encoding="utf-8"))
        for library in index.get("libraries", ()):
            library |= _measure(path.with_name(library["file"]))  # noqa: PLW2901  in place
        if "libraries" in index:
            write_json(path, index)


def _measure(file: Path) -> dict[str, Any]:
    return {"sha256": digest.of_file(file), "size": file.stat().st_size}


def _module(module: CompiledModule[Path], sources: Path, target: Path) -> dict[str, Any]:
    path = sources / module.source
    file = f"{module.name}{f'-{module.target}' if module.target else ''}{module.suffix}"
    if relative(file).name != file:
        raise ActionError.of(f"a module cannot be named {module.name!r}", hint="rename its source")
    shutil.copyfile(module.compiled, target / file)
    return {
        "name": module.name,
        "source": relative(module.source).as_posix(),
        "digest": digest.of_file(path),
        "file": file,
        "sha256": digest.of_file(target / file),
        "images": [_image(image) for image in module.images],
        "kernels": [_kernel(_with_types(kernel, path)) for kernel in module.kernels],
    }


def _with_types(kernel: Kernel, source: Path) -> Kernel:
    """Return a kernel with the types of its declaration in the source, if its symbol has none, as with C linkage.

    A declaration counts if it is the only one and agrees with the compiled kernel's sizes.
    """
    if not kernel.parameters or any(parameter.type for parameter in kernel.parameters):
        return kernel
    found = set(declared(source.read_text(encoding="utf-8", errors="replace"), kernel.symbol))
    written = found.pop() if len(found) == 1 else ()
    if len(written) != len(kernel.parameters) or any(
        each.size not in {0, known.size} for each, known in zip(written, kernel.parameters, strict=True)
    ):
        return kernel
    types = (each.type if each.size else "" for each in written)
    parameters = tuple(
        known._replace(type=each) for known, each in zip(kernel.parameters, types, strict=True)
    )
    return kernel._replace(parameters=parameters)


def _kernel(kernel: Kernel) -> dict[str, Any]:
    return {
        "symbol": kernel.symbol,
        "name": kernel.name,
        "parameters": [{"type": each.type, "size": each.size} for each in kernel.parameters],
    }


def _image(image: KernelImage) -> dict[str, str]:
    described = {"kind": image.kind, "arch": image.target}
    return {**described, "isa": image.isa} if image.isa else described


def new_folder(parent: Path, name: str) -> Path:
    """Make the folder of a set; raises ActionError for a name that is not a file name."""
    if relative(name).name != name:
        raise ActionError.of(f"an object cannot be named {name!r}", hint="use letters, digits and dashes")
    target = parent / name
    target.mkdir(parents=True)
    return target


def relative(name: str) -> PurePosixPath:
    """Return the path of a file below the project; raises ActionError for any other path."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name:
        raise ActionError.of(
            f"{name!r} is not a path inside the project", hint="name files relative to the manifest"
        )
    return path


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write an index or a recipe; raises ActionError if it is larger than its readers accept."""
    text = (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
    if len(text) > document.LARGEST:
        raise ActionError.of(
            f"{file.parent.name}/{file.name} has {len(text)} bytes, and its readers take {document.LARGEST}",
            hint="make several objects of this one: the names and parameters of all its kernels are in this file",
        )
    file.write_bytes(text)


_BUILD_PATH = re.compile(r"(?:^|[=,]|:(?!//[^/])|^-[A-Za-z]+)(?:/|~/)")  # "/x", "-I/x", "--opt=/x"
_PLACEHOLDERS = ("{compiler}", "{sources}", "{output}")


def pack_sources(folder: Path, gathered: SourceSet, sources: Path) -> Path:
    """Write the project's `sources`, with headers and a recipe, below `folder`; return `folder/sources/<name>`.

    `recipe.json` (schema 1) lists both with their sha256, and the toolchains in the order of the tries. The header for
    errors is among the headers if a file names it and the project has none of that name. Raises ActionError if a recipe
    has a path of the build machine, or lacks a placeholder.
    """
    target = new_folder(folder / SOURCES, gathered.name)
    files = {file: sources / file for file in (*gathered.includes, *gathered.sources)}
    includes = sorted(gathered.includes)
    if not any(PurePosixPath(file).name == ERRORS_H.name for file in files) and any(
        ERRORS_H.name.encode() in path.read_bytes() for path in files.values()
    ):
        files[ERRORS_H.name] = ERRORS_H
        includes = sorted((*includes, ERRORS_H.name))
    copied = {file: _copy_source(path, file, target) for file, path in files.items()}
    for toolchain in gathered.toolchains:
        _check_argv(gathered.name, toolchain)
    content = {
        "schema": SCHEMA,
        "name": gathered.name,
        "kind": gathered.kind,
        "abi": gathered.abi,
        **({"packages": dict(gathered.packages)} if gathered.packages else {}),
        "fallbacks": list(gathered.fallbacks),
        **({"program": True} if gathered.program else {}),
        "cpu": gathered.cpu,
        "sources": [{"file": file, "sha256": copied[file]} for file in sorted(gathered.sources)],
        "includes": [{"file": file, "sha256": copied[file]} for file in includes],
        "toolchains": [asdict(toolchain) for toolchain in gathered.toolchains],
        "toolkit": gathered.toolkit,
        "archs": list(gathered.archs),
    }
    write_json(target / RECIPE, content)
    return target


def _copy_source(source: Path, file: str, target: Path) -> str:
    """Copy a source to its place; return its sha256."""
    if file == RECIPE:
        raise ActionError.of(f"a source cannot be named {file}, as the recipe is", hint="rename it")
    place = target / relative(file)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)
    return digest.of_file(place)


def _check_argv(name: str, toolchain: UserToolchain) -> None:
    # others have the maintainer's command, or no command line
    places = _PLACEHOLDERS if toolchain.programs else ()
    missing = [place for place in places if not any(place in word for word in toolchain.argv)]
    if missing:
        raise ActionError.of(
            f"the recipe of object {name!r} for {toolchain.name} has no {' and no '.join(missing)}",
            hint="this is a fault of gpuforge's toolchain; please report it",
        )
    for word in toolchain.argv:
        if _BUILD_PATH.search(word):
            raise ActionError.of(
                f"the recipe of object {name!r} for {toolchain.name} names a path of the build machine: {word}",
                hint="the user's machine has no such path: use flags without absolute paths",
            )
