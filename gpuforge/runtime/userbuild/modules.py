"""Compiles a set of modules: each source by nvcc or NVRTC into an image of its own, or the C++ ones into a library."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import layout, nvrtc
from ..arch import Arch
from ..cache import KernelCache
from ..context import primary_context
from ..driver import NoDriver, open_driver
from ..errors import DriverError
from ..index import Module, Refused
from ..machine import Nvrtc, Probe
from ..reason import Reason
from ..recipe import UserToolchain, read
from ..sources import Sources
from ..tables import DRIVER
from . import compilers
from .compilers import Absent, Compiler
from .invoke import invoke
from .outcome import Stopped
from .recipe import Recipe

FOLDER = "modules"  # what is made of sources for a GPU: an index.json and the images


@dataclass(frozen=True)
class CompileInputs:
    """What modules are compiled for and with: this machine, the user's own sources, environment and time limit."""

    machine: Probe
    arch: Arch | None  # of the first GPU
    extra: Sequence[Path]
    env: Mapping[str, str]
    limit: float


def find(toolchain: UserToolchain, here: CompileInputs, *, path: str = "") -> Compiler | Absent:
    """Return what compiles a toolchain's part of a set on this machine, or why nothing does."""
    if toolchain.family == "opencl" and here.extra:
        return Absent(toolchain, ("`compile` takes no sources of yours for it",))
    strangers = [source for source in here.extra if source.suffix not in _suffixes(toolchain)]
    if strangers:
        return Absent(toolchain, (f"it does not compile {strangers[0].suffix or strangers[0].name}",))
    if toolchain.family == "opencl":
        return _opencl(toolchain, here)
    if toolchain.makes == "module" and not here.arch:
        return Absent(toolchain, ("there is no GPU here to compile for",))
    if toolchain.family != "nvrtc":
        return compilers.find(toolchain, here.env, path=path)
    env = {**here.env, nvrtc.SWITCH: path} if path else here.env
    found = nvrtc.find(env, here.machine.driver or (0, 0), toolchain.install.get("", ""))
    if not isinstance(found, Nvrtc):
        return Absent(toolchain, (str(found),))
    numbers = compilers.numbers(found.release)
    if not all(compilers.holds(operator, bound, numbers) for operator, bound in toolchain.accepts):
        return Absent(toolchain, (f"{found.file}: version {found.release} is not {toolchain.version}",))
    if here.arch and found.target(here.arch.capability) is None:
        return Absent(toolchain, (f"{found.label} compiles for no architecture that {here.arch.sm} runs",))
    return Compiler("nvrtc", Path(found.file), found.release)


def make(
    recipe: Recipe, toolchain: UserToolchain, compiler: Compiler, work: Path, here: CompileInputs
) -> Path:
    """Compile a toolchain's part of a set; return the folder of images, or the library for the CPU.

    A source of the user's that has the name of one of the package's takes its place. Raises Stopped, OSError.
    """
    own = {source.stem: source for source in here.extra}
    packaged = [name for name in toolchain.sources if Path(name).stem not in own]
    if toolchain.makes == "library":
        part = replace(recipe, sources=tuple(packaged), includes=_included(recipe, packaged))
        return invoke(
            part, toolchain, compiler, work, extra=here.extra, arch=None, env=here.env, limit=here.limit
        )
    made = work / FOLDER
    made.mkdir()
    listed = [(Path(name).stem, name, recipe.folder / name) for name in packaged]
    listed += [(stem, source.name, source.absolute()) for stem, source in own.items()]
    modules = [
        _entry(stem, name, file, _image(recipe, toolchain, compiler, work, here, stem, file), made)
        for stem, name, file in sorted(listed)
    ]
    arch = _target(compiler, here)
    for module in modules:
        module["images"] = [{"kind": "cubin", "arch": arch}]
    index = {
        "schema": 1,
        "name": recipe.name,
        "kind": "module",
        "toolchain": {"family": compiler.family, "version": compiler.version},
        "toolkit": ".".join(map(str, compilers.numbers(compiler.version)[:2])),
        "modules": modules,
    }
    (made / layout.INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return made


def check(made: Path) -> None:
    """Raise Stopped unless the driver loads each image."""
    opened = open_driver(DRIVER.files)
    if isinstance(opened, NoDriver):
        raise Stopped(f"what was compiled does not load: {opened.reason}")
    for file in sorted(made.glob("*.cubin")):
        try:
            context = primary_context(opened, 0)
            with context.current():
                opened.unload(opened.load(file.read_bytes()))
        except DriverError as error:
            raise Stopped(f"what was compiled does not load: {str(error).splitlines()[0]}") from error


def prepare_opencl(recipe: Recipe, here: CompileInputs) -> str:
    """Compile the OpenCL sources into the kernel cache, and return for which device; raises Stopped."""
    from ..opencl import load

    try:
        return load.prepare(_sources_of(recipe, "opencl"), here.env)
    except (DriverError, Refused) as error:
        raise Stopped(str(error)) from error


def _opencl(toolchain: UserToolchain, here: CompileInputs) -> Compiler | Absent:
    from ..opencl.devices import Needs, devices

    needs = Needs(toolchain.install.get("", ""), toolchain.devices, toolchain.extensions)
    found = devices(here.env, needs)
    if isinstance(found, Reason):
        return Absent(toolchain, (str(found),))
    return Compiler("opencl", Path(found[0].name), found[0].driver)


def _suffixes(toolchain: UserToolchain) -> set[str]:
    return {Path(source).suffix for source in toolchain.sources}


def _included(recipe: Recipe, compiled: Sequence[str]) -> tuple[str, ...]:
    """Return what lies beside the sources that are compiled: headers, and the other sources of the set."""
    return (*recipe.includes, *(name for name in recipe.sources if name not in compiled))


def _image(
    recipe: Recipe,
    toolchain: UserToolchain,
    compiler: Compiler,
    work: Path,
    here: CompileInputs,
    stem: str,
    file: Path,
) -> bytes:
    """Return the machine code of one source."""
    if compiler.family == "nvrtc":
        return _by_nvrtc(recipe, compiler, here, stem, file)
    folder = work / f"of-{stem}"
    folder.mkdir()
    names = [name for name in toolchain.sources if recipe.folder / name == file]
    part = replace(recipe, name=stem, sources=tuple(names), includes=_included(recipe, names))
    extra = [] if names else [file]
    product = invoke(
        part, toolchain, compiler, folder, extra=extra, arch=here.arch, env=here.env, limit=here.limit
    )
    return product.read_bytes()


def _by_nvrtc(recipe: Recipe, compiler: Compiler, here: CompileInputs, stem: str, file: Path) -> bytes:
    from .. import compiled

    part = _sources_of(recipe, "nvrtc")
    assert here.arch is not None  # noqa: S101  `find` has refused others
    found = _nvrtc(compiler, here)
    packaged = next((module for module in part.modules.values() if module.file == str(file)), None)
    module = packaged or Module(stem, file.name, str(file), "", ())
    try:
        key = compiled.key_of(module, part, found, here.arch.capability)
        return KernelCache.of_user(here.env).obtain(
            key, lambda: compiled.compile_module(module, part, found, key)
        )
    except Refused as refused:
        facts = refused.reason.facts
        first = next(iter(str(facts.get("problem", refused)).splitlines()), "")
        raise Stopped(
            f"nvrtc {compiler.version} refuses {file.name}: {first}", log=str(refused).encode()
        ) from refused


def _sources_of(recipe: Recipe, family: str) -> Sources:
    found = read(str(recipe.folder))
    assert found is not None  # noqa: S101  the recipe was read as one of modules
    return found.sources[family]


def _target(compiler: Compiler, here: CompileInputs) -> str:
    """Return the architecture of what was made: NVRTC may know only an older one than the GPU's."""
    found = here.arch
    if found and compiler.family == "nvrtc":
        found = _nvrtc(compiler, here).target(found.capability)
    assert found is not None  # noqa: S101  `find` has refused others
    return found.sm


def _nvrtc(compiler: Compiler, here: CompileInputs) -> Nvrtc:
    """Return the library that `find` has found."""
    found = nvrtc.find({nvrtc.SWITCH: str(compiler.path)}, here.machine.driver or (0, 0), "")
    assert isinstance(found, Nvrtc)  # noqa: S101  it is open
    return found


def _entry(stem: str, name: str, file: Path, code: bytes, folder: Path) -> dict[str, object]:
    image = folder / f"{stem}.cubin"
    image.write_bytes(code)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return {
        "name": stem,
        "source": name,
        "digest": digest,
        "file": image.name,
        "sha256": hashlib.sha256(code).hexdigest(),
    }


def put(made: Path, target: Path) -> None:
    """Move a folder of images to where `--output` wants it, in place of an earlier one; raises OSError."""
    if (target / layout.INDEX).is_file():
        shutil.rmtree(target)
    made.rename(target)
