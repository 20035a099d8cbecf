"""Kernel sets as they lie in a wheel: images with an index, sources with a recipe, and the runtime."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from gpuforge import digest
from gpuforge.errors import ActionError
from gpuforge.wheel import unpacked

SCHEMA = 1
RECIPE = "recipe.json"
INDEX = "index.json"
GUARD = "guard.py"  # of the runtime's files the one that has its own place in a wheel
HOME = "_gpuforge"  # the folder in the package that the runtime looks in, and lies in itself
_BUILD_PATH = re.compile(r"(?:^|[=,:]|^-[A-Za-z]+)(?:/|~/)")  # "/x", "-I/x", "--opt=/x"
_PLACES = ("{compiler}", "{sources}", "{output}")
_NO_PLACES = {
    "command",
    "nvrtc",
    "opencl",
}  # a call of the maintainer's own, and compilers without a command line


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The compiler that made something: "nvcc" at "13.0.88"."""

    family: str
    version: str


@dataclass(frozen=True, slots=True)
class Image:
    """One image in a fatbin, as read from it; `isa` is the PTX ISA version, "" for machine code.

    The code for CPUs of a library is one image of the kind "library".
    """

    kind: str  # "cubin", "ptx", "lto-ir" or "library"
    arch: str  # "sm_80", "compute_120"; of "library" the level of CPUs: "x86-64-v3", "" for any
    isa: str = ""


@dataclass(frozen=True, slots=True)
class Library:
    """A compiled library and what it runs on: the GPUs that one of its images is for, or the CPUs of a level."""

    path: Path
    images: tuple[Image, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A compiled kernel source: `source` is its name in the project, `digest` the sha256 of its bytes."""

    name: str
    source: str
    digest: str
    fatbin: Path
    images: tuple[Image, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one toolchain is found on the user's machine, and how it compiles the sources there.

    `argv` holds `{compiler}`, `{sources}` and `{output}` where those go; the runtime fills in more, see LibraryCall.
    """

    name: str
    family: str
    version: str  # a version range, as in the manifest; "" for any
    argv: tuple[str, ...]
    accepts: tuple[tuple[str, tuple[int, ...]], ...] = ()  # the version range as comparisons
    path: str = ""  # the compiler's executable, where the manifest names one
    programs: str = ""  # pattern of its file names, whose group "version" follows the plain name
    answers: str = ""  # pattern for what it prints for --version, with a group "version"
    places: tuple[str, ...] = ()  # folders beside PATH, as patterns
    product: str = ""  # where a command leaves the library, as a pattern; "": it writes {output}
    offload: str = ""  # the target that GCC must have an offload compiler for
    runtimes: tuple[str, ...] = ()  # SONAMEs of a toolchain's runtimes that the library will need
    install: Mapping[str, str] = field(default_factory=dict)  # how to get it, by distribution; "": others
    makes: str = "library"  # "library", or "module": images or sources that are loaded one by one
    sources: tuple[str, ...] = ()  # of a set of modules, those that it compiles


def pack_fallback(
    folder: Path,
    *,
    name: str,
    toolchain: Toolchain,
    toolkit: str,
    modules: Iterable[Module],
    stands_in_for: str = "",
    cpu: str = "",
) -> Path:
    """Lay compiled modules out below `folder` as they go into the wheel; return `folder/kernels/<name>`.

    `index.json` (schema 1) says what there is: for each module its source and that one's digest, the file
    and its digest, and the images in it; `cpu` names the library that does their work on the CPU. Raises ActionError
    for two modules of one name, and for no images.
    """
    target = _new(folder / "kernels", name)
    listed = []
    taken: set[str] = set()
    for module in sorted(modules, key=lambda m: m.name):
        if module.name in taken:
            raise ActionError.of(
                f"object {name!r} has two sources that give a module {module.name!r}: {module.source} is one",
                hint="rename one of the sources: a module has its source's name without the suffix",
            )
        if not module.images:
            raise ActionError.of(
                f"{module.fatbin.name}, compiled from {module.source}, holds no GPU image",
                hint="check the architectures of the manifest and the compiler's log",
            )
        taken.add(module.name)
        listed.append(_module(module, target))
    index = {
        "schema": SCHEMA,
        "name": name,
        "kind": "module",
        "toolchain": {"family": toolchain.family, "version": toolchain.version},
        "toolkit": toolkit,
        "modules": listed,
        **({"stands-in-for": stands_in_for} if stands_in_for else {}),
        **({"cpu": cpu} if cpu else {}),
    }
    _write_json(target / INDEX, index)
    return target


def pack_library(
    folder: Path,
    *,
    name: str,
    toolchain: Toolchain,
    toolkit: str,
    libraries: Sequence[Library],
    abi: str,
    stands_in_for: str,
    packages: Mapping[str, str] = MappingProxyType({}),
    fallbacks: Sequence[str] = (),
) -> Path:
    """Lay compiled libraries out below `folder` as they go into the wheel; return `folder/kernels/<name>`.

    There are several where each is for another level of CPUs. `packages` are those whose version is part of the ABI,
    beside the id `abi`: {"neuron": "major.minor"}. `fallbacks` are the objects whose libraries are used where none of
    these runs.
    """
    target = _new(folder / "kernels", name)
    listed = []
    for library in libraries:
        level = library.images[0].arch if library.images[0].kind == "library" else ""
        file = f"lib{name}-{level}.so" if level else f"lib{name}.so"
        shutil.copyfile(library.path, target / file)
        listed.append({"file": file, **_measure(target / file), "images": [*map(_image, library.images)]})
    index = {
        "schema": SCHEMA,
        "name": name,
        "kind": "library",
        "toolchain": {"family": toolchain.family, "version": toolchain.version},
        "toolkit": toolkit,
        "abi": abi,
        **({"packages": dict(packages)} if packages else {}),
        "stands-in-for": stands_in_for,
        "fallbacks": list(fallbacks),
        "libraries": listed,
    }
    _write_json(target / INDEX, index)
    return target


def measure_again(tree: Path, package: str) -> None:
    """Correct the digests of libraries in an unpacked wheel's kernel sets: repairing it may have changed them."""
    home = find_package(tree, package)
    for path in sorted((home / HOME / "kernels").glob(f"*/{INDEX}")) if home else []:
        index = json.loads(path.read_text(encoding="utf-8"))
        for library in index.get("libraries", ()):
            library |= _measure(path.with_name(library["file"]))  # noqa: PLW2901  in place
        if "libraries" in index:
            _write_json(path, index)


def _measure(file: Path) -> dict[str, Any]:
    return {"sha256": digest.of_file(file), "size": file.stat().st_size}


def pack_user_compiled(
    folder: Path,
    *,
    name: str,
    sources: Mapping[str, Path],
    includes: Mapping[str, Path],
    toolchains: Sequence[Recipe],
    toolkit: str,
    archs: Sequence[str],
    abi: str = "",
    kind: str = "library",
    packages: Mapping[str, str] = MappingProxyType({}),
    fallbacks: Sequence[str] = (),
    cpu: str = "",
) -> Path:
    """Lay sources, what they include and their recipe out below `folder`; return `folder/sources/<name>`.

    `sources` are the files that the compiler is given, by their names in the project; `includes` those that
    must lie beside them.
    `recipe.json` (schema 1) lists both with their sha256, and the toolchains in the order they are tried. `abi` is
    the id that each compiled library gets, with the versions of the installed `packages`; `fallbacks` the objects that
    are used where none was compiled. A set of modules (`kind`) may have a library that does its work on the CPU (`cpu`)
    besides.
    Raises ActionError when a recipe names a path of the build machine, or lacks a placeholder.
    """
    target = _new(folder / "sources", name)
    copied = {file: _copy(path, file, target) for file, path in {**includes, **sources}.items()}
    for recipe in toolchains:
        _check_argv(name, recipe)
    content = {
        "schema": SCHEMA,
        "name": name,
        "kind": kind,
        "abi": abi,
        **({"packages": dict(packages)} if packages else {}),
        "fallbacks": list(fallbacks),
        "cpu": cpu,
        "sources": [{"file": file, "sha256": copied[file]} for file in sorted(sources)],
        "includes": [{"file": file, "sha256": copied[file]} for file in sorted(includes)],
        "toolchains": [asdict(recipe) for recipe in toolchains],
        "toolkit": toolkit,
        "archs": list(archs),
    }
    _write_json(target / RECIPE, content)
    return target


def embed(tree: Path, package: str, packed: Sequence[Path], runtime: Path) -> list[str]:
    """Put packed kernel sets, and the runtime that finds them, into an unpacked wheel's package.

    `package` is an import name ("saxpy", "a.b"). Returns the names of the files put in. Raises ActionError
    when the wheel has no such package, or something in that place.
    """
    home = _package_folder(tree, package) / HOME
    if home.exists():
        raise ActionError.of(
            f"the wheel has a folder {home.relative_to(tree)} already",
            hint=f"{HOME} is where the runtime goes: have the build leave it out",
        )
    modules = sorted(
        path
        for suffix in ("py", "c", "h")
        for path in runtime.rglob(f"*.{suffix}")
        if "__pycache__" not in path.parts and path.name != GUARD
    )
    for source, base in [
        *((m, runtime) for m in modules),
        *((f, p) for p in packed for f in unpacked.files(p)),
    ]:
        target = home / source.relative_to(base)
        if target.exists():
            raise ActionError.of(
                f"two kernel sets have {target.relative_to(home)}", hint="give each object another name"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return [path.relative_to(tree).as_posix() for path in unpacked.files(home)]


def _copy(source: Path, file: str, target: Path) -> str:
    """Copy a source to its place; return its sha256."""
    if file == RECIPE:
        raise ActionError.of(f"a source cannot be named {file}, as the recipe is", hint="rename it")
    place = target / _relative(file)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)
    return digest.of_file(place)


def _module(module: Module, target: Path) -> dict[str, Any]:
    file = f"{module.name}.fatbin"
    if _relative(file).name != file:
        raise ActionError.of(f"a module cannot be named {module.name!r}", hint="rename its source")
    shutil.copyfile(module.fatbin, target / file)
    return {
        "name": module.name,
        "source": _relative(module.source).as_posix(),
        "digest": module.digest,
        "file": file,
        "sha256": digest.of_file(target / file),
        "images": [_image(image) for image in module.images],
    }


def _image(image: Image) -> dict[str, str]:
    said = {"kind": image.kind, "arch": image.arch}
    return {**said, "isa": image.isa} if image.isa else said


def _check_argv(name: str, recipe: Recipe) -> None:
    places = () if recipe.family in _NO_PLACES else _PLACES
    missing = [place for place in places if not any(place in word for word in recipe.argv)]
    if missing:
        raise ActionError.of(
            f"the recipe of object {name!r} for {recipe.name} has no {' and no '.join(missing)}",
            hint="this is a fault of gpuforge's toolchain; please report it",
        )
    for word in recipe.argv:
        if _BUILD_PATH.search(word):
            raise ActionError.of(
                f"the recipe of object {name!r} for {recipe.name} names a path of the build machine: {word}",
                hint="the user's machine has no such path: use flags without absolute paths",
            )


def find_package(tree: Path, package: str) -> Path | None:
    """Return the folder of an import package ("saxpy", "a.b") in an unpacked wheel, None if it has none."""
    below = Path(*package.split("."))
    return next((root / below for root in _roots(tree) if (root / below).is_dir()), None)


def _roots(tree: Path) -> list[Path]:
    return [tree, *sorted(tree.glob("*.data/platlib")), *sorted(tree.glob("*.data/purelib"))]


def _package_folder(tree: Path, package: str) -> Path:
    found = find_package(tree, package)
    if found is not None:
        return found
    there = {
        path.name
        for root in _roots(tree)
        for path in root.iterdir()
        if path.is_dir() and path.name.isidentifier()
    }
    raise ActionError.of(
        f"the wheel has no package {package!r} to put the kernels in",
        hint=f"it has {', '.join(sorted(there)) or 'no package at all'}: set [package] import",
    )


def _new(parent: Path, name: str) -> Path:
    if _relative(name).name != name:
        raise ActionError.of(f"an object cannot be named {name!r}", hint="use letters, digits and dashes")
    target = parent / name
    target.mkdir(parents=True)
    return target


def _relative(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name:
        raise ActionError.of(
            f"{name!r} is no path inside the project", hint="name files relative to the manifest"
        )
    return path


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
