"""Checks the conditions that every toolchain must meet, gpuforge's own and plug-ins, without the compiler."""

import re
from collections.abc import Iterator, Sequence

from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import CpuLevel
from gpuforge.runtime.placeholders import PLACEHOLDER
from gpuforge.runtime.values import kind_of
from gpuforge.toolchains import registry
from gpuforge.toolchains.toolchain import CompilerCall, CompilerTarget, PackagedCompiler, Toolchain

MACHINES = ("x86_64", "aarch64")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_OF_USERS = {"compiler", "include", "folders", "sources", "abi", "output", "arch", "cuda"}
_PACKAGED = {"python", "programs", "source", "name", "output"}


def problems(name: str) -> Iterator[str]:
    """Yield the problems of the toolchain of a name; raises UsageError if it cannot be loaded."""
    found = registry.toolchain(name)
    if not _NAME.fullmatch(found.name):
        yield f"its name {found.name!r} is not one of letters, digits, `-`, `_`, `+` and `.`"
    yield from (f"suffix {suffix!r} has no dot" for suffix in found.compiles if not suffix.startswith("."))
    if registry.identity(name) != registry.identity(name):
        yield "its code has no constant identity"
    if not found.uses:
        yield "it can be used for nothing: it has none of library, module and packaged"
    if "host build" in found.builtin and found.program is None:
        yield "builtin: it compiles the host build, and `program` does not say how it is found"
    if "fallback library" in found.builtin and not (found.library or found.by_command):
        yield "builtin: it compiles libraries of fallbacks, and has no `library`"
    yield from _of_users(found)
    if found.packaged:
        yield from _packaged(found.packaged)


def _of_users(found: Toolchain) -> Iterator[str]:
    """Yield the problems of compiling on a user's machine."""
    sources = [f"a{suffix}" for suffix in found.compiles]
    calls: list[tuple[str, CompilerCall]] = []
    if found.library:
        calls.append(("library", found.library(sources, ["-flag"])))
    if found.module:
        calls.append(("module", found.module(["-flag"], "13.0")))
    for kind, call in calls:
        yield from _words(f"{kind}: ", call.argv, _OF_USERS)
        if "-flag" not in call.argv:
            yield f"{kind}: the manifest's flags are not in its command"
        if not call.install.get("") and kind == "library":
            yield f"{kind}: `install` has no text for other distributions"
        if call.makes != kind:
            yield f"{kind}: its call makes a {call.makes}"
        if "{compiler}" in call.argv and found.program is None:
            yield f"{kind}: its command names a compiler, and `program` does not say how it is found"
    if found.program and "version" not in re.compile(found.program.answers).groupindex:
        yield "program: `answers` has no group `version`"


def _packaged(package: PackagedCompiler) -> Iterator[str]:
    """Yield the problems of compiling here."""
    if package.programs and not package.programs.is_dir():
        yield f"packaged: there is no folder {package.programs}"
    try:
        package.targets(["no such target"], MACHINES[0])
        yield "packaged: `targets` accepts an invalid target"
    except ValueError:
        pass
    for machine in MACHINES:
        try:
            usual = package.targets([], machine)
        except ValueError:
            continue
        if not usual:
            yield f"packaged: it compiles for nothing on {machine}"
        for target in usual:
            yield from _target(package, target, machine)


def _target(package: PackagedCompiler, target: CompilerTarget, machine: str) -> Iterator[str]:
    title = f"packaged: {target.name}: "
    if not _NAME.fullmatch(target.name):
        yield f"{title}is not a name that gpuforge can use in file names"
    if package.makes == "library" and not _is_known(target):
        yield f"{title}the runtime knows no {target.kind} {target.built_for!r} of a library"
    if [target] != list(package.targets([target.name], machine)):
        yield f"{title}its own name is another target"
    words = package.compile(target, machine, ["-flag"])
    yield from _words(title, words, _PACKAGED)
    if "-flag" not in words:
        yield f"{title}the manifest's flags are not in its command"
    if package.links:
        yield from _words(f"{title}links: ", package.links(target), {"programs"})
    if package.runtime:
        yield from _words(
            f"{title}runtime: ", package.runtime(target, machine), _PACKAGED - {"source", "name"}
        )


def _is_known(target: CompilerTarget) -> bool:
    """Return whether the runtime supports an image in a library."""
    loader = kind_of(target.kind).loader
    match target.built_for:
        case Arch():
            return loader == "CUDA"
        case CpuLevel(name) as level:
            return loader == "system" and (not name or level.machine != "")
    return False


def _words(title: str, words: Sequence[str], known: set[str]) -> Iterator[str]:
    """Yield unknown placeholders, and a command without an output."""
    named = [name for word in words for name in PLACEHOLDER.findall(word)]
    yield from (f"{title}nothing fills in {{{name}}}" for name in named if name not in known)
    yield from (
        f"{title}{word!r} has two placeholders" for word in words if len(PLACEHOLDER.findall(word)) > 1
    )
