"""Source sets of a wheel: sources that are compiled on the user's machine, with a recipe."""

from __future__ import annotations

import re
import shutil
from dataclasses import asdict
from pathlib import Path

from gpuforge import digest
from gpuforge.embedded.object_sets import SourceSet
from gpuforge.embedded.user_toolchain import UserToolchain
from gpuforge.errors import ActionError
from gpuforge.package.kernel_set import SCHEMA, new_folder, relative, write_json
from gpuforge.runtime.layout import RECIPE, SOURCES

_BUILD_PATH = re.compile(r"(?:^|[=,]|:(?!//[^/])|^-[A-Za-z]+)(?:/|~/)")  # "/x", "-I/x", "--opt=/x"
_PLACEHOLDERS = ("{compiler}", "{sources}", "{output}")


def pack_sources(folder: Path, gathered: SourceSet) -> Path:
    """Write sources, their headers and their recipe below `folder`; return `folder/sources/<name>`.

    `recipe.json` (schema 1) lists both with their sha256, and the toolchains in the order of the tries. Raises
    ActionError if a recipe has a path of the build machine, or lacks a placeholder.
    """
    target = new_folder(folder / SOURCES, gathered.name)
    files = {**gathered.includes, **gathered.sources}
    copied = {file: _copy(path, file, target) for file, path in files.items()}
    for toolchain in gathered.toolchains:
        _check_argv(gathered.name, toolchain)
    content = {
        "schema": SCHEMA,
        "name": gathered.name,
        "kind": gathered.kind,
        "abi": gathered.abi,
        **({"packages": dict(gathered.packages)} if gathered.packages else {}),
        "fallbacks": list(gathered.fallbacks),
        "cpu": gathered.cpu,
        "sources": [{"file": file, "sha256": copied[file]} for file in sorted(gathered.sources)],
        "includes": [{"file": file, "sha256": copied[file]} for file in sorted(gathered.includes)],
        "toolchains": [asdict(toolchain) for toolchain in gathered.toolchains],
        "toolkit": gathered.toolkit,
        "archs": list(gathered.archs),
    }
    write_json(target / RECIPE, content)
    return target


def _copy(source: Path, file: str, target: Path) -> str:
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
