"""Compiles a package's sources on the user's machine, checks the result, and puts it in use."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from .. import layout
from ..arch import Arch
from ..backends import Backend
from ..builds import ACTIVE, BuildsFolder, UserBuild, former, recorded
from ..decide import named
from ..driver import Probe, probe, switched_off
from ..explain import facts_of
from ..kernelset import KernelSet
from ..layout import KERNEL_HOME, BuildUnusable, Lookup, home_problem, variable
from ..libraries import candidates, is_program, place_of
from ..process import KernelUnavailable, printable
from ..recipe import Recipe, UserToolchain, backend_of
from ..values import Candidate, Origin
from . import activation, modules
from .activation import remove_leftovers
from .compilers import Absent, CompileInputs, Compiler, Find, find, how_to_install, select
from .execute import FAILED, INTERRUPTED, MISSING, USAGE, Interrupted, Stopped, interruptible, uninterrupted
from .invoke import invoke, recipes
from .modules import ahead


def library_in_use(lookup: Lookup) -> Candidate | None:
    """Return the library of an object that is in use, None for none; raises KernelUnavailable for a damaged wheel."""
    return next((c for c in candidates(lookup) if c.accepted), None)


def describe(lookup: Lookup, kind: str) -> str:
    """Return a description of the library in use or, for the kind "module", of the kernels.

    It is part of other messages, so a damaged wheel is described, too.
    """
    try:
        return _modules(lookup) if kind == "module" else _library(lookup)
    except KernelUnavailable as error:
        return f"nothing is in use: {' '.join(str(error).splitlines()[:1])}"


def _library(lookup: Lookup) -> str:
    used = library_in_use(lookup)
    kind = "program" if is_program(lookup.home, lookup.name) else "library"
    if used is None:
        return f"no {kind} is in use"
    if used.origin is not Origin.SHIPPED:
        return f"in use: {used.origin.label} ({used.build.place}), {used.reason}"
    wheel = f"of {used.build.wheel}" if used.build.wheel else ""
    what = " ".join(filter(None, (f"the shipped {kind}", used.shipped_image, wheel)))
    return f"in use: {what}, {used.reason}"


def _modules(lookup: Lookup) -> str:
    folder = layout.kernels(lookup.home, lookup.name)
    facts = facts_of(KernelSet(folder, package=lookup.package, env=lookup.env))
    texts = {module.name: _used(module.verdicts[0].candidates) for module in facts.modules}
    if not any(texts.values()):
        return "no kernels are in use"
    if len(set(texts.values())) == 1:
        return f"in use: {next(iter(texts.values()))}"
    return "in use: " + "; ".join(f"{name}: {text or 'nothing'}" for name, text in texts.items())


def _used(judged: tuple[Candidate, ...]) -> str:
    """Return the first candidate with its reason, "" if it is not accepted: the accepted ones come first."""
    return next((f"{named(c)}, {c.reason}" for c in judged if c.accepted), "")


LIMIT_S = 1800.0
Say = Callable[[str], object]
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .check import LibraryGroup


@dataclass(frozen=True)
class Package:
    """The package of this runtime: its import name, the runtime's folder, and the user's environment."""

    name: str
    home: Path
    env: Mapping[str, str]


SUMMARY = "compile the package's sources with a compiler of this machine, and use the result from now on"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="*", type=Path, help="sources of your own, compiled with the package's"
    )
    parser.add_argument("--object", help="which of the package's objects; default: all of them")
    parser.add_argument(
        "--toolchain", metavar="NAME[=PATH]", help="this toolchain, or this compiler, and no other"
    )
    parser.add_argument(
        "--arch",
        type=_arch,
        metavar="ARCH",
        help="compile for GPUs of this compute capability, such as 90; none need be here",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="put the library there and activate nothing"
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=LIMIT_S, metavar="SECONDS", help="default: %(default)g"
    )
    parser.add_argument(
        "--remove", action="store_true", help="remove your build: the shipped library is used again"
    )


def _arch(text: str) -> Arch:
    with contextlib.suppress(ValueError):
        arch = Arch.parse(text)
        if not arch.variant:
            return arch
    raise argparse.ArgumentTypeError(f"{text!r} is not a compute capability such as 90")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def run(options: argparse.Namespace) -> int:
    """Compile for the package of this runtime."""
    home = Path(__file__).resolve().parent.parent
    package = Package((__package__ or "").rpartition("._gpuforge")[0], home, os.environ)
    return main(
        options,
        package,
        say=lambda line: sys.stdout.write(printable(f"{line}\n")),
        complain=lambda line: sys.stderr.write(printable(f"{line}\n")),
    )


def main(options: argparse.Namespace, package: Package, say: Say, complain: Say) -> int:
    """Run the command; return its exit status: 0, or 1, 2, 3 and 130 as for `gpuforge` itself."""
    try:
        with interruptible():
            return _each(_chosen(package, options), package, options, say, complain)
    except Stopped as stopped:
        complain(f"error: {stopped}")
        return stopped.status
    except KernelUnavailable as error:
        complain(f"error: {error.reasons[0]}")
        return FAILED
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        other = "--output" if options.output else KERNEL_HOME
        complain(
            f"error: {place}{error.strerror or error}; nothing was changed. {other} names another folder"
        )
        return FAILED
    except BuildUnusable as error:
        complain(f"error: {error}; nothing was changed. {KERNEL_HOME} names another folder")
        return FAILED
    except Interrupted as end:
        complain(f"error: interrupted by {end}; nothing was changed")
        return INTERRUPTED


def _each(
    found: Sequence[Recipe], package: Package, options: argparse.Namespace, say: Say, complain: Say
) -> int:
    """Run the command for each object, and at the end list those that were not compiled; return the exit status."""
    failures = []
    try:
        for recipe in found:
            try:
                say(_done(recipe, package, options))
            except Stopped as stopped:
                if stopped.status not in (FAILED, MISSING):
                    raise
                failures.append(stopped)
    finally:
        for failure in failures:
            complain(f"error: {failure}")
    return min((failure.status for failure in failures), default=0)


def _done(recipe: Recipe, package: Package, options: argparse.Namespace) -> str:
    try:
        return _remove(recipe, package) if options.remove else _compile(recipe, package, options)
    except Interrupted as end:
        state = _in_use(recipe, package)
        raise Stopped(f"{recipe.name}: interrupted by {end}; {state}", INTERRUPTED) from None


def _chosen(package: Package, options: argparse.Namespace) -> list[Recipe]:
    found = recipes(package.home)
    names = ", ".join(recipe.name for recipe in found)
    wrong = home_problem(package.env)
    if wrong and not options.output:
        raise Stopped(str(wrong), USAGE)
    if not found:
        raise Stopped(f"{package.name} has no sources to compile", USAGE)
    if options.object:
        found = [recipe for recipe in found if recipe.name == options.object]
        if not found:
            raise Stopped(f"{package.name} has no object {options.object!r}; it has: {names}", USAGE)
    if options.sources and len(found) > 1:
        raise Stopped(f"which object do the sources belong to? Name one with --object: {names}", USAGE)
    if options.sources and options.remove:
        raise Stopped("--remove takes no sources", USAGE)
    for source in options.sources:
        if not source.is_file():
            raise Stopped(f"{source}: there is no such file", USAGE)
    return found


def _remove(recipe: Recipe, package: Package) -> str:
    place = place_of(_lookup(recipe, package))
    with uninterrupted():
        there = activation.remove(place)
        while earlier := former(place, str(package.home)):
            there = activation.remove(earlier[0]) or there
    now = _in_use(recipe, package)
    return f"{recipe.name}: {'your build was removed' if there else 'there was no build of yours'}; {now}"


def _compile(recipe: Recipe, package: Package, options: argparse.Namespace) -> str:
    machine = Probe(None) if switched_off(package.env) else probe()
    first = Arch(*machine.devices[0].capability) if machine.devices else None
    arch = options.arch or first
    here = CompileInputs(machine, arch, (), package.env, options.timeout)
    if options.arch:
        recipe = _with_arch(recipe, options.toolchain or "")
    requested, sources = _toolchain_and_sources(recipe, package, options, here)
    here = replace(here, extra=sources)
    toolchain, compiler = select(recipe, requested, how_to_install, _finder(recipe, here))
    modules.refuse_same_names(recipe, toolchain, sources)
    backend = backend_of(toolchain.family)
    if backend and backend.into_cache:
        return _prepare(backend, recipe, toolchain, package, here, options)
    substitute = recipe.lowest_arch if arch is None and toolchain.needs_arch else None
    arch = arch or substitute
    here = replace(here, arch=arch)
    unaimed = arch is None and toolchain.takes_arch
    why = _why(substitute, unaimed=unaimed, elsewhere=arch != first)
    from .check import release
    from .gpu_code import gpu_code

    with _work(recipe, package, options.output) as (work, place):
        log = activation.log_of(place) if place else options.output / f"{recipe.name}.log"
        try:
            product = _product(recipe, toolchain, compiler, work, here, package, loads=arch == first)
        except Stopped as stopped:
            kept_log = _kept(stopped.log, log)
            raise Stopped(f"{recipe.name}: {stopped}; {kept_log}{_in_use(recipe, package)}") from None
        made = UserBuild(
            Path(recipe.name if product.is_dir() or recipe.program else f"lib{recipe.name}.so"),
            "",  # `activate` adds the digest
            toolchain.name,
            compiler.label,
            arch.sm if arch and toolchain.takes_arch else "",
            tuple(recorded(str(source)) for source in sources),
            recorded(str(package.home)),
            release(package.home, package.name),
            requested,
            () if product.is_dir() else tuple(image.label for image in gpu_code(product) if image.arch),
        )
        if place is None:
            target = options.output / made.file.name
            product.chmod(0o755)
            modules.move(product, target) if product.is_dir() else product.replace(target)
            words = variable(package.name, recipe.name)
            by = _by(made) + why
            return f"{recipe.name}: {target}, made by {by}; {words}={target.absolute()} uses it"
        with uninterrupted():
            build = activation.activate(place, product, made)
            remove_leftovers(place.folder.parents[1])
    return f"{recipe.name}: {build.file}, made by {_by(build)}{why}, is used from now on"


def _with_arch(recipe: Recipe, requested: str) -> Recipe:
    taking = tuple(toolchain for toolchain in recipe.toolchains if toolchain.takes_arch)
    name = requested.partition("=")[0]
    if name in {toolchain.name for toolchain in recipe.toolchains if toolchain not in taking}:
        raise Stopped(f"{recipe.name}: --arch does not go with the toolchain {name}, which takes none", USAGE)
    return recipe._replace(toolchains=taking) if taking else recipe


def _toolchain_and_sources(
    recipe: Recipe, package: Package, options: argparse.Namespace, here: CompileInputs
) -> tuple[str, list[Path]]:
    """Return the toolchain and the sources that the user chose, now or for the previous release."""
    own = [source.absolute() for source in options.sources]
    place = place_of(_lookup(recipe, package))
    earlier = None if options.output or (place.folder / ACTIVE).exists() else former(place, str(package.home))
    if options.toolchain or own or earlier is None:
        return options.toolchain or "", own
    build = earlier[1]
    for source in build.sources:
        if not Path(source).is_file():
            raise Stopped(
                f"{recipe.name}: your build for {build.release or 'the release before'} was made with {source}, "
                "which is gone; name your sources, or drop that build with --remove",
                USAGE,
            )
    name, _, path = build.requested.partition("=")
    known = next((toolchain for toolchain in recipe.toolchains if toolchain.name == name), None)
    look = _finder(recipe, here)
    there = known and isinstance(look(known, path=path), Compiler)
    return build.requested if there else "", [Path(source) for source in build.sources]


def _finder(recipe: Recipe, here: CompileInputs) -> Find:
    """Return a function that finds a toolchain's compiler: for a set of modules also one that is not a program."""
    if recipe.kind == "module":
        return partial(modules.find, here=here)

    def library(toolchain: UserToolchain, *, path: str = "") -> Compiler | Absent:
        if toolchain.needs_arch and not (here.arch or recipe.lowest_arch):
            return Absent(toolchain, (here.no_gpu,), lacks_gpu=True)
        return find(toolchain, here.env, path=path)

    return library


def _product(
    recipe: Recipe,
    toolchain: UserToolchain,
    compiler: Compiler,
    work: Path,
    here: CompileInputs,
    package: Package,
    *,
    loads: bool,
) -> Path:
    """Compile, and check the output, a library or a folder of images; raises Stopped.

    Images are checked by loading them, with `loads`.
    """
    if recipe.kind == "module":
        product = modules.make(recipe, toolchain, compiler, work, here)
    else:
        product = invoke(recipe, toolchain, compiler, work, here)
    if product.is_dir():
        if loads:
            modules.check(product)
    else:
        from .check import check

        check(product, recipe, toolchain, _parts(recipe, package), package.env, here.arch)
    return product


def _prepare(
    backend: Backend,
    recipe: Recipe,
    toolchain: UserToolchain,
    package: Package,
    here: CompileInputs,
    options: argparse.Namespace,
) -> str:
    """Compile into the kernel cache, whose code is used if nothing before it in the order fits."""
    if options.output:
        others = ", ".join(each.name for each in recipe.toolchains if not each.into_cache)
        raise Stopped(
            f"{recipe.name}: what {backend.loader} compiles goes into the kernel cache and not to --output; "
            f"name another toolchain with --toolchain: {others or 'the package has none'}",
            USAGE,
        )
    try:
        device = ahead(backend).prepare(toolchain, recipe, here)
    except Stopped as stopped:
        raise Stopped(f"{recipe.name}: {stopped}; {_in_use(recipe, package)}") from None
    return f"{recipe.name}: compiled for {device}, kept in the kernel cache; {_in_use(recipe, package)}"


def _by(build: UserBuild) -> str:
    added = (
        f" with {len(build.sources)} source{'s' * (len(build.sources) > 1)} of yours" if build.sources else ""
    )
    return (
        f"{build.compiler} (toolchain {build.toolchain})"
        + (f" for {build.arch}" if build.arch else "")
        + added
    )


def _why(substitute: Arch | None, *, unaimed: bool, elsewhere: bool) -> str:
    if unaimed:
        return " (no GPU here: --arch 90 compiles for one)"
    if substitute:
        return " (no GPU here: the lowest architecture of the wheel, with PTX for newer GPUs)"
    return " (no such GPU is here)" if elsewhere else ""


@contextlib.contextmanager
def _work(
    recipe: Recipe, package: Package, output: Path | None
) -> Iterator[tuple[Path, BuildsFolder | None]]:
    """Yield the folder to compile in, and the place of the user's builds, which is None with `--output`."""
    if output is not None:
        with activation.work_in(output) as work:
            yield work, None
        return
    place = place_of(_lookup(recipe, package))
    with activation.work(place) as work:
        yield work, place


def _parts(recipe: Recipe, package: Package) -> list[LibraryGroup]:
    """Return the libraries that may be in the process already.

    They are of the package, its requirements and its other objects, and the user's builds for other packages.
    """
    from .check import LibraryGroup, parts

    others = [
        library_in_use(_lookup(other, package))
        for other in recipes(package.home)
        if other.name != recipe.name and other.kind == "library" and not other.program
    ]
    builds = tuple(Path(used.build.place) for used in others if used and used.origin is not Origin.SHIPPED)
    return [
        *parts(package.home, package.name, without=recipe.demands.fallbacks),
        *([LibraryGroup("", builds)] if builds else []),
        *(
            LibraryGroup(name, (build.file,), build=True)
            for name, build in activation.importable(place_of(_lookup(recipe, package)).folder.parents[1])
            if name != package.name and build.file.suffix == ".so"
        ),
    ]


def _kept(printed: bytes, log: Path) -> str:
    """Save the compiler's output for the user, if there is room for it; return its path."""
    if not printed:
        return ""
    try:
        log.write_bytes(printed)
    except OSError:
        with contextlib.suppress(OSError):
            log.unlink()
        return ""
    return f"all it printed: {log}; "


def _in_use(recipe: Recipe, package: Package) -> str:
    return describe(_lookup(recipe, package), recipe.kind)


def _lookup(recipe: Recipe, package: Package) -> Lookup:
    return Lookup(recipe.name, str(package.home), package.name, package.env)
