"""The toolchains by name: gpuforge's own, and those of installed plug-ins (docs/toolchains.md)."""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from gpuforge import digest
from gpuforge.errors import UsageError
from gpuforge.toolchain_names import GROUP, OWN
from gpuforge.toolchains.toolchain import Toolchain


def names() -> tuple[str, ...]:
    """Return the names of all toolchains, gpuforge's own first."""
    return tuple(dict.fromkeys([*OWN, *sorted(entry.name for entry in _installed())]))


@cache
def toolchain(name: str) -> Toolchain:
    """Return the toolchain of a name; raises UsageError if it is unknown or cannot be loaded."""
    entry = _entry(name)
    try:
        found = entry.load()
    except Exception as error:
        raise UsageError.of(
            f"the toolchain {name!r} cannot be loaded from {entry.value}: {type(error).__name__}: {error}",
            hint=f"correct or uninstall {_distribution(entry)}",
        ) from error
    if not isinstance(found, Toolchain) or found.name != name:
        raise UsageError.of(
            f"the toolchain {name!r}: {entry.value} is not a Toolchain of that name",
            hint=f"correct or uninstall {_distribution(entry)}; docs/toolchains.md describes plug-ins",
        )
    return found


def toolchains() -> Iterator[Toolchain]:
    """Yield all toolchains; raises UsageError for one that cannot be loaded."""
    return map(toolchain, names())


@cache
def identity(name: str) -> str:
    """Return the identity of a toolchain's code, for keys: of its plug-in, or of gpuforge's module.

    It is the content of the entry point's module or, in a separate package, of all files of that package.
    """
    entry = _entry(name)
    toolchain(name)
    package = entry.module.rpartition(".")[0]
    spec = find_spec(entry.module if name in OWN or not package else package)
    if spec is None or spec.origin is None:
        raise UsageError.of(
            f"the code of the toolchain {name!r} is not a file", hint="install its plug-in as files"
        )
    module = Path(spec.origin)
    members = [module]
    if spec.submodule_search_locations:
        members = sorted(p for p in module.parent.rglob("*") if p.is_file() and p.suffix != ".pyc")
    return f"{_distribution(entry)} {digest.of_files(module.parent, members)}"


def _entry(name: str) -> EntryPoint:
    if name in OWN:
        return EntryPoint(name, f"{__package__}.{OWN[name].place}", GROUP)
    found = [entry for entry in _installed() if entry.name == name]
    if not found:
        raise UsageError.of(f"unknown compiler {name!r}", hint=f"known: {', '.join(names())}")
    if len(found) > 1:
        sources = " and ".join(sorted(map(_distribution, found)))
        raise UsageError.of(
            f"two plug-ins are called {name!r}: those of {sources}", hint="uninstall one of them"
        )
    return found[0]


@cache
def _installed() -> tuple[EntryPoint, ...]:
    return tuple(entry for entry in entry_points(group=GROUP) if entry.name not in OWN)


def _distribution(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "gpuforge"
