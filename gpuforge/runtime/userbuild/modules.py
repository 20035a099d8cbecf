"""Compiles a set of modules: each source by nvcc or NVRTC into an image, or the C++ ones into a library."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from .. import layout, values
from ..backends import Backend
from ..builds import compile_again
from ..driver import NoDriver, open_driver
from ..process import DriverError
from ..recipe import Recipe, UserToolchain, backend_of
from . import compilers
from .compilers import Absent, CompileInputs, Compiler, LibraryCompiler
from .execute import USAGE, Stopped
from .invoke import invoke


def ahead(backend: Backend) -> Any:
    """Return the part for `compile`: `find` a toolchain's compiler, `prepare` sources in the cache (`into_cache`)."""
    return import_module(f"..backends.{backend.folder}.ahead", __package__)


def find(toolchain: UserToolchain, here: CompileInputs, *, path: str = "") -> Compiler | Absent:
    """Return the compiler for a toolchain's part of a set on this machine, or why there is none."""
    backend = backend_of(toolchain.family)
    if backend and backend.into_cache:
        return cast("Compiler | Absent", ahead(backend).find(toolchain, here, path))
    suffixes = {Path(source).suffix for source in toolchain.sources}
    strangers = [source for source in here.extra if source.suffix not in suffixes]
    if strangers:
        return Absent(toolchain, (f"it does not compile {strangers[0].suffix or strangers[0].name}",))
    if toolchain.makes == "module" and not here.arch:
        return Absent(toolchain, (here.no_gpu,), lacks_gpu=True)
    if backend:
        return cast("Compiler | Absent", ahead(backend).find(toolchain, here, path))
    return compilers.find(toolchain, here.env, path=path)


def refuse_same_names(recipe: Recipe, toolchain: UserToolchain, extra: Sequence[Path]) -> None:
    """Raise Stopped if two sources of the user's own would give modules of one name."""
    others: dict[str, Path] = {}
    for source in extra if toolchain.makes == "module" else ():
        other = others.setdefault(source.stem, source)
        if other is not source:
            raise Stopped(
                f"{recipe.name}: {other} and {source} would both give the module {source.stem!r}: "
                "rename one of them",
                USAGE,
            )


def make(
    recipe: Recipe, toolchain: UserToolchain, compiler: Compiler, work: Path, here: CompileInputs
) -> Path:
    """Compile a toolchain's part of a set; return the folder of images, or the library for the CPU.

    A source of the user replaces the package's source of the same name. Raises Stopped, OSError.
    """
    own = {source.stem: source for source in here.extra}
    packaged = [name for name in toolchain.sources if Path(name).stem not in own]
    if toolchain.makes == "library":
        return invoke(recipe.part(packaged), toolchain, compiler, work, replace(here, arch=None))
    made = work / "modules"
    made.mkdir()
    listed = [(Path(name).stem, name, Path(recipe.path(name))) for name in packaged]
    listed += [(stem, source.name, source.absolute()) for stem, source in own.items()]
    modules = [
        _entry(stem, name, _image(recipe, toolchain, compiler, work, here, stem, file), made)
        for stem, name, file in sorted(listed)
    ]
    assert here.arch is not None  # noqa: S101  `find` has refused others
    for module in modules:
        module["images"] = [{"kind": "cubin", "arch": compiler.target(here.arch).sm}]
    content = {
        "schema": values.SCHEMA,
        "name": recipe.name,
        "kind": "module",
        "toolchain": {"family": compiler.family, "version": compiler.version},
        "toolkit": ".".join(map(str, compilers.numbers(compiler.version)[:2])),
        "modules": modules,
    }
    (made / layout.INDEX).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return made


def check(made: Path) -> None:
    """Raise Stopped unless the driver loads each image."""
    from ..backends.cuda.kernel import primary_context

    opened = open_driver()
    if isinstance(opened, NoDriver):
        raise Stopped(f"what was compiled does not load: {opened.reason}")
    for file in sorted(made.glob("*.cubin")):
        try:
            context = primary_context(opened, 0)
            with context.current():
                opened.unload(opened.load(file.read_bytes()))
        except DriverError as error:
            raise Stopped(f"what was compiled does not load: {str(error).splitlines()[0]}") from error


def _image(
    recipe: Recipe,
    toolchain: UserToolchain,
    compiler: Compiler,
    work: Path,
    here: CompileInputs,
    stem: str,
    file: Path,
) -> bytes:
    if isinstance(compiler, LibraryCompiler):
        return compiler.image(recipe, toolchain, here, stem, file)
    folder = work / f"of-{stem}"
    folder.mkdir()
    names = [name for name in toolchain.sources if Path(recipe.path(name)) == file]
    part = recipe.part(names, stem)
    own = replace(here, extra=() if names else (file,))
    return invoke(part, toolchain, compiler, folder, own).read_bytes()


def _entry(stem: str, name: str, code: bytes, folder: Path) -> dict[str, object]:
    image = folder / f"{stem}.cubin"
    image.write_bytes(code)
    return {
        "name": stem,
        "source": name,
        "file": image.name,
        "sha256": hashlib.sha256(code).hexdigest(),
        "kernels": [],  # the driver reads its symbols
        "again": compile_again((__package__ or "").rpartition("._gpuforge")[0]),
    }


def move(made: Path, target: Path) -> None:
    if (target / layout.INDEX).is_file():
        shutil.rmtree(target)
    made.rename(target)
