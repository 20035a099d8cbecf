"""Puts kernel sets, and the parts of the runtime that they need, into the import package of a wheel."""

import ast
import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuforge import runtime as gpuforge_runtime
from gpuforge.binary.elf.file import opened
from gpuforge.binary.elf.symbols import dynamic_symbols
from gpuforge.errors import ActionError
from gpuforge.package import c_header as header
from gpuforge.package import import_package
from gpuforge.package.contents import FOLDER, FOR_TYPES, SUFFIXES, KernelsWheelSet
from gpuforge.runtime.backends import BACKENDS
from gpuforge.runtime.layout import HOME, INDEX, KERNELS, RECIPE, SOURCES
from gpuforge.runtime.recipe import backend_of
from gpuforge.runtime.userbuild import check
from gpuforge.runtime.values import KINDS, ImageKind, kind_of
from gpuforge.wheel import unpacked

# the only file of the runtime with another place in a wheel, see `guard.py` here
GUARD_SOURCE = FOLDER / "guard.py"


def kernel_sets(
    tree: Path,
    name: str,
    packed: Sequence[Path],
    *,
    apart: Sequence[KernelsWheelSet] = (),
    c_header: bool = False,
) -> list[str]:
    """Put packed kernel sets, and the runtime that finds them, into the import package `name` ("saxpy", "a.b").

    `apart` are the sets in kernels wheels. With `c_header` the header for programs in C is there, too. Returns the
    names of the added files. Raises ActionError if the wheel has no such import package, or a file in that place, and
    if a library for the CPU lacks a function.
    """
    home = import_package.folder(tree, name) / HOME
    if home.exists():
        raise ActionError.of(
            f"the wheel has a folder {home.relative_to(tree)} already",
            hint=f"{HOME} is where the runtime goes: have the build leave it out",
        )
    check_cpu_functions(packed)
    contents = contents_of(tree, packed, apart, c_header=c_header)
    files = [(file, FOLDER) for file in runtime_files(contents)]
    files += [(file, folder) for folder in packed for file in unpacked.files(folder)]
    for source, base in files:
        target = home / source.relative_to(base)
        if target.exists():
            raise ActionError.of(
                f"two kernel sets have {target.relative_to(home)}", hint="give each object another name"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    if c_header:
        target = home / header.PATH
        target.parent.mkdir()
        target.write_text(header.joined(), encoding="utf-8")
    return [path.relative_to(tree).as_posix() for path in unpacked.files(home)]


def check_cpu_functions(packed: Sequence[Path]) -> None:
    """Raise ActionError for a kernel without a function in a set's library for the CPU, of the sets packed here.

    A function is found by the kernel's symbol, or by its name. Kernels in wheels of their own are not compared.
    """
    indexes = dict(_documents(packed, KERNELS, INDEX))
    recipes = [recipe for _, recipe in _documents(packed, SOURCES, RECIPE)]
    for folder, index in indexes.items():
        if index["kind"] != "module":
            continue
        served = {recipe["cpu"] for recipe in recipes if index["name"] in recipe["fallbacks"]}
        libraries = [
            (place, each)
            for place, other in indexes.items()
            if other["name"] in {index.get("cpu"), *served}
            for each in other.get("libraries", ())
        ]
        for place, library in libraries:
            _check(folder.name, index, place / library["file"])


def _documents(packed: Sequence[Path], home: str, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for folder in packed:
        for file in sorted(folder.glob(f"{home}/*/{name}")):
            yield file.parent, json.loads(file.read_bytes())


def _check(name: str, index: dict[str, Any], library: Path) -> None:
    with opened(library) as file:
        defined = {symbol.name for symbol in dynamic_symbols(file) if symbol.defined} if file else set()
    kernels = {each["symbol"]: each["name"] for module in index["modules"] for each in module["kernels"]}
    missing = sorted({each for symbol, each in kernels.items() if not {symbol, each} & defined})
    if missing:
        raise ActionError.of(
            f"{library.name} does the work of kernel set {name!r} on the CPU, and has no function "
            f"{', '.join(missing)}",
            hint='define one for each kernel, as extern "C" or with the parameters of the kernel',
        )


def check_runtimes(
    tree: Path, name: str, packed: Sequence[Path], by_command: Mapping[str, str], search: Sequence[Path]
) -> None:
    """Raise ActionError if `compile` would refuse what a command makes, for a second runtime in the process.

    `by_command` are the fallbacks whose object is compiled by the same command on users' machines, with the command's
    program. The libraries in `packed` are as the command left them; `tree` is the repaired wheel, whose libraries are
    loaded beside what a user compiles, except that fallback's. `search` are folders of a toolkit's libraries.
    """
    home = import_package.folder(tree, name) / HOME
    env = {"LD_LIBRARY_PATH": ":".join(map(str, search))}
    for folder, index in _documents(packed, KERNELS, INDEX):
        if index["name"] not in by_command or index.get("program"):  # a program is not in this process
            continue
        others = check.loaded(unpacked.files(tree), [home / KERNELS / index["name"]])
        for library in index["libraries"]:
            part = [check.LibraryGroup("", others)]
            for conflict in check.conflicts(part, folder / library["file"], env):
                raise _second_runtime(index["name"], by_command[index["name"]], tree, conflict)


def _second_runtime(name: str, program: str, tree: Path, conflict: check.Conflict) -> ActionError:
    there, brought = conflict.there, conflict.brought
    place, root = there.path.resolve(), tree.resolve()
    has = place.relative_to(root) if place.is_relative_to(root) else place
    return ActionError.of(
        f"object {name!r}: users' `compile` would refuse what {program} makes: it brings {brought.path.name}, a second "
        f"{there.kind} beside {has} of the wheel",
        hint="leave the runtime to the user's machine: name it in [wheel] exclude; or build the host code without it",
    )


_ALWAYS = ("", "__main__", "explain_command")
# An import in a function of one of these, or of a module below it, is followed only in wheels with what is named here:
# the function is not called in others. Imports at the top of a module are always followed.
OPTIONAL = {
    "kernelset": "kernel sets",
    "kernellibrary": "kernel libraries",
    "libraries": "libraries, those for the CPU of a kernel set too",
    "recipe": "sources that users compile",
    "builds": "sources that users compile",
    "userbuild": "sources that users compile, and its part `check` if that does not make cached code alone",
    "wheels": "kernels wheels",
    "more_reasons": "anything but kernel sets for NVIDIA's driver",
    "cpu": "code for levels of CPUs",
    "elf": "libraries, and machine code that no index lists",
    "backends.cuda": "code for NVIDIA's driver, and its part `jit` PTX in wheels with the kernel cache",
    "cache": "sources that are compiled at their first use, and Python files that import it",
}


@dataclass(frozen=True)
class WheelContents:
    """What decides on the parts of the runtime.

    `indexes` and `recipes` are the JSON of packed kernel sets and sources, `apart` the sets in kernels wheels, and
    `imported` the runtime's modules that the package's own Python files import.
    """

    indexes: Sequence[Mapping[str, Any]] = ()
    recipes: Sequence[Mapping[str, Any]] = ()
    apart: Sequence[KernelsWheelSet] = ()
    imported: Collection[str] = field(default_factory=frozenset)
    c_header: bool = False

    def kinds(self) -> set[str]:
        """Return the kinds of their objects: "module", "library"."""
        return {str(each["kind"]) for each in (*self.indexes, *self.recipes)} | {s.kind for s in self.apart}

    def images(self) -> Iterator[ImageKind]:
        """Yield the kinds of their images; kernels wheels have code of a CUDA toolkit."""
        for index in self.indexes:
            for file in (*index.get("modules", ()), *index.get("libraries", ())):
                yield from (kind_of(image["kind"]) for image in file["images"])
        if self.apart:
            yield from (kind for kind in KINDS.values() if kind.of_toolkit and kind.of_module)


def contents_of(
    tree: Path, packed: Sequence[Path], apart: Sequence[KernelsWheelSet], *, c_header: bool
) -> WheelContents:
    """Read packed kernel sets, and the Python files of an unpacked wheel that does not have the runtime yet."""
    return WheelContents(
        [index for _, index in _documents(packed, KERNELS, INDEX)],
        [recipe for _, recipe in _documents(packed, SOURCES, RECIPE)],
        apart,
        frozenset(module for file in sorted(tree.rglob("*.py")) for module in imported(file.read_bytes())),
        c_header,
    )


def entries(contents: WheelContents) -> set[str]:
    """Return the modules of the runtime that are used from outside of it, or are imported by a computed name."""
    found = {*_ALWAYS, *contents.imported}
    objects = contents.kinds()
    loaders = {kind.loader for kind in contents.images()}
    cached = contents.recipes or "cache" in contents.imported
    if cached and any(kind.has_ptx and kind.loader == kind_of("ptx").loader for kind in contents.images()):
        found.add("backends.cuda.jit")  # in other wheels the driver's own cache keeps what it compiles
    if "module" in objects:
        found.add("kernelset")
    if "library" in objects or "kernellibrary" in found:
        found |= {"kernellibrary", "libraries"}
    if contents.recipes:
        found |= {"recipe", "libraries", "userbuild.command", "cache_command"}
    if contents.apart:
        found.add("wheels")
    if any(each.get("cpu") for each in (*contents.indexes, *contents.recipes)) or any(
        each.cpu for each in contents.apart
    ):
        found.add("libraries")
        loaders.add(kind_of("library").loader)
    for recipe in contents.recipes:
        for toolchain in recipe["toolchains"]:
            backend = backend_of(toolchain["family"])
            if not (backend and backend.into_cache):  # else the back end itself loads what it compiles
                loaders.add(kind_of("cubin" if toolchain["makes"] == "module" else "library").loader)
                found.add("userbuild.check")
            if backend:
                loaders.add(backend.loader)
                found.add(f"backends.{backend.folder}.ahead")
    found |= {f"backends.{BACKENDS[loader].folder}" for loader in loaders if loader in BACKENDS}
    if contents.apart or contents.recipes or "kernellibrary" in found or loaders - {kind_of("cubin").loader}:
        found.add("more_reasons")
    return found | ({"include"} if contents.c_header else set())


def runtime_files(contents: WheelContents) -> list[Path]:
    """Return the files of the runtime that a wheel gets, sorted."""
    needed = entries(contents)
    found = _closure(needed)
    if "cache" in found:
        found |= _closure(needed | {"cache_command"})
    modules = _modules()
    named = {name for module in found for name in _read(modules[module]).files}
    in_c = {path for path in FOLDER.rglob("*") if path.suffix in SUFFIXES - {".py"} and path.name in named}
    return sorted({modules[module] for module in found} | in_c)


def imported(source: bytes) -> set[str]:
    """Return the runtime's modules that a Python file of a package imports, by their names in the runtime.

    The home of `KernelSet` is "kernelset". A file that is not Python has none.
    """
    if HOME.encode() not in source:
        return set()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    homes = {name: home for home, names in gpuforge_runtime.HOMES.items() for name in names}
    modules = _modules()
    found = set()
    for node in ast.walk(tree):
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [[*(node.module or "").split("."), alias.name] for alias in node.names]
        elif isinstance(node, ast.Attribute):  # `_gpuforge.KernelSet`
            names = [[HOME, node.attr]]
        for parts in names:
            inside = parts[parts.index(HOME) + 1 :] if HOME in parts else []
            found |= {homes[name] for name in inside if name in homes}
            found |= {
                module
                for module in (".".join(inside[:length]) for length in range(1, len(inside) + 1))
                if module in modules
            }
    return found


# An import from the runtime itself, at the top of its module if it is not indented. A test holds that it finds what
# Python's parser finds, which takes 20 times as long.
_IMPORT = re.compile(r"\n([ \t]*)from (\.+)([\w.]*) import (\([^)]*\)|.*)")


class _Module(NamedTuple):
    """A module of the runtime.

    `imports` are the names that it imports from modules of the runtime, each with whether it does so at its top, and
    `files` are the files that it names: programs beside it, and files in C.
    """

    imports: tuple[tuple[str, bool], ...]
    files: frozenset[str]


@cache
def _modules() -> dict[str, Path]:
    """Return the files of the runtime's modules, by their names in it: "", "kernelset", "backends.cuda.load"."""
    return {_name(path): path for path in sorted(FOLDER.rglob("*.py"))}


def _name(path: Path) -> str:
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _read(path: Path) -> _Module:
    text = path.read_text(encoding="utf-8")
    package = path.relative_to(FOLDER).parent.parts
    imports: list[tuple[str, bool]] = []
    for indent, dots, module, names in _IMPORT.findall(FOR_TYPES.sub("", f"\n{text}")):
        base = [*package[: len(package) + 1 - len(dots)], *filter(None, [module])]
        found = [base, *([*base, name] for name in re.findall(r"\w+", re.sub(r"#.*", "", names)))]
        imports += [(".".join(each), not indent) for each in found]
    strings = re.findall(r"\"([\w.-]+)\"", text)
    files = {name for name in strings if name.endswith(tuple(SUFFIXES))}
    return _Module(tuple(imports), frozenset(files))


def _closure(needed: Collection[str]) -> set[str]:
    """Return the modules `needed`, those that they import at any time, and the packages that they are in."""
    modules = _modules()
    found: set[str] = set()
    todo = list(needed)
    while todo:
        name = todo.pop()
        if name in found or name not in modules:
            continue
        found.add(name)
        module = _read(modules[name])
        above = name.split(".")[:-1]
        todo += [".".join(above[:length]) for length in range(len(above) + 1)]
        todo += [
            each
            for each, at_top in module.imports
            if at_top or each in needed or not any(f"{each}.".startswith(f"{part}.") for part in OPTIONAL)
        ]
        programs = {modules[name].parent / file for file in module.files}
        todo += [each for each, path in modules.items() if path in programs]
    return found
