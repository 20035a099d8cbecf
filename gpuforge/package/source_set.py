"""Source sets of a wheel: sources that are compiled on the user's machine, with a recipe."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from gpuforge import digest
from gpuforge.embedded.layout import RECIPE, SOURCES
from gpuforge.embedded.user_toolchain import UserToolchain
from gpuforge.errors import ActionError
from gpuforge.package.kernel_set import SCHEMA, new_folder, relative, write_json

_BUILD_PATH = re.compile(r"(?:^|[=,]|:(?!//[^/])|^-[A-Za-z]+)(?:/|~/)")  # "/x", "-I/x", "--opt=/x"
_PLACEHOLDERS = ("{compiler}", "{sources}", "{output}")


def pack_sources(
    folder: Path,
    *,
    name: str,
    sources: Mapping[str, Path],
    includes: Mapping[str, Path],
    toolchains: Sequence[UserToolchain],
    toolkit: str,
    archs: Sequence[str],
    abi: str = "",
    kind: str = "library",
    packages: Mapping[str, str] = MappingProxyType({}),
    fallbacks: Sequence[str] = (),
    cpu: str = "",
) -> Path:
    """Write sources, their headers and their recipe below `folder`; return `folder/sources/<name>`.

    `sources` are the files that are compiled, by their names in the project; `includes` are files beside them.
    `recipe.json` (schema 1) lists both with their sha256, and the toolchains in the order of the tries. `abi` is the id
    of each compiled library, together with the versions of the installed `packages`; `fallbacks` are the objects that
    are used if nothing was compiled. A set of modules (`kind`) may have a library for the CPU (`cpu`). Raises
    ActionError if a recipe has a path of the build machine, or lacks a placeholder.
    """
    target = new_folder(folder / SOURCES, name)
    copied = {file: _copy(path, file, target) for file, path in {**includes, **sources}.items()}
    for toolchain in toolchains:
        _check_argv(name, toolchain)
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
        "toolchains": [asdict(toolchain) for toolchain in toolchains],
        "toolkit": toolkit,
        "archs": list(archs),
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
