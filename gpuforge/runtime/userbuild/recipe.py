"""The objects that `compile` can make here: their unchanged sources, and their ABI ids."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .. import document, layout
from ..candidates import identity_of
from ..index import Refused
from ..reason import Reason
from ..recipe import Recipe, read_to_compile
from .outcome import MISSING, Stopped


def recipes(home: Path) -> list[Recipe]:
    """Return the recipes of a package, by name; raises Stopped for one that cannot be read."""
    folders = [layout.sources(str(home), name) for name in layout.names(layout.sources(str(home)))]
    return [_read(folder) for folder in sorted(folders) if Path(layout.recipe(folder)).exists()]


def abi_of(recipe: Recipe) -> str:
    """Return the ABI id of an object's libraries here; raises Stopped if a package is missing."""
    found = identity_of(recipe.demands)
    if isinstance(found, Reason):
        raise Stopped(f"{recipe.name}: {found}: install it first", MISSING)
    return found


def _read(folder: str) -> Recipe:
    try:
        recipe = read_to_compile(folder)
        abi_of(recipe)  # no compiler is called for a library that nothing could use
        for name, sha256 in recipe.files.items():
            verify(recipe.path(name), recipe.path(name), sha256)
    except Refused as refused:
        raise Stopped(f"{refused}; install the wheel again") from refused
    except OSError as error:
        raise Stopped(f"{error.filename}: {error.strerror or error}") from error
    return recipe


def verify(file: str | Path, original: str, sha256: str) -> None:
    """Raise Stopped unless a file of the wheel, or a copy of it, is unchanged; raises OSError."""
    with document.open_file(file) as stream:
        if hashlib.sha256(stream.read()).hexdigest() == sha256:
            return
    raise Stopped(
        f"{original} was changed after it was installed: install the wheel again, and give sources of "
        "your own as arguments"
    )
