"""The objects that `compile` can make here: their unchanged sources, and their ABI ids."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .. import document, layout
from ..arch import Arch
from ..candidates import identity_of
from ..index import Demands, Refused
from ..reason import Reason
from ..recipe import Compilation, UserToolchain, read, read_compilation
from ..sources import Sources
from .outcome import MISSING, Stopped


@dataclass(frozen=True)
class Recipe:
    """A user-compiled object: `folder` has its files, `sources` are those that the compiler gets."""

    name: str
    folder: Path
    abi: str  # the id of its libraries here
    fallbacks: tuple[str, ...]
    sources: tuple[str, ...]
    includes: tuple[str, ...]
    toolchains: tuple[UserToolchain, ...]
    kind: str = "library"  # or "module"
    digests: Mapping[str, str] = field(default_factory=dict)  # sha256 of each source and header
    archs: tuple[Arch, ...] = ()  # of machine code in the wheel

    @property
    def lowest_arch(self) -> Arch | None:
        """The lowest of the wheel's architectures whose PTX every newer GPU can run; None if it has none."""
        return min((arch for arch in self.archs if not arch.variant), default=None)


def recipes(home: Path) -> list[Recipe]:
    """Return the recipes of a package, by name; raises Stopped for one that cannot be read."""
    folders = [Path(layout.sources(str(home), name)) for name in layout.names(layout.sources(str(home)))]
    return [_read(folder) for folder in sorted(folders) if (folder / layout.RECIPE).exists()]


def _read(folder: Path) -> Recipe:
    try:
        return _here(folder, read_compilation(str(folder)))
    except Refused as refused:
        raise Stopped(f"{refused}; install the wheel again") from refused
    except OSError as error:
        raise Stopped(f"{error.filename}: {error.strerror or error}") from error


def _here(folder: Path, read: Compilation) -> Recipe:
    """Return a recipe with the ABI id of its libraries here; raises Stopped, OSError."""
    abi, digests = _abi(read.name, read.demands), {**read.sources, **read.includes}
    for name, sha256 in digests.items():
        verify(folder / name, folder / name, sha256)
    return Recipe(
        name=read.name,
        folder=folder,
        abi=abi,
        fallbacks=read.demands.fallbacks,
        sources=tuple(read.sources),
        includes=tuple(read.includes),
        toolchains=read.toolchains,
        kind=read.kind,
        digests=digests,
        archs=read.archs,
    )


def _abi(name: str, demands: Demands) -> str:
    found = identity_of(demands)
    if isinstance(found, Reason):
        raise Stopped(f"{name}: {found}: install it first", MISSING)
    return found


def sources_of(recipe: Recipe, toolchain: UserToolchain) -> Sources:
    """Return a toolchain's part of a set of modules."""
    found = read(str(recipe.folder))
    assert found is not None  # noqa: S101  the recipe was read as one of modules
    return found.sources[toolchain.name]


def verify(file: Path, original: Path, sha256: str) -> None:
    """Raise Stopped unless a file of the wheel, or a copy of it, is unchanged; raises OSError."""
    with document.open_file(file) as stream:
        if hashlib.sha256(stream.read()).hexdigest() == sha256:
            return
    raise Stopped(
        f"{original} was changed after it was installed: install the wheel again, and give sources of "
        "your own as arguments"
    )
