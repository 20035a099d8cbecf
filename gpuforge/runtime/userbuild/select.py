"""Chooses the toolchain: the user's choice, else the first of the recipe with a suitable compiler here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Union

from ..recipe import Recipe, UserToolchain
from .compilers import Absent, Compiler
from .outcome import MISSING, USAGE, Stopped

Find = Callable[..., Union[Compiler, Absent]]  # from a toolchain and, as `path`, the file that the user names


def select(
    recipe: Recipe,
    requested: str,
    how_to_install: Callable[[UserToolchain], str],
    find: Find,
) -> tuple[UserToolchain, Compiler]:
    """Return a toolchain and its compiler. `requested` is "", a toolchain's name, or "NAME=PATH"; raises Stopped."""
    name, equals, path = requested.partition("=")
    toolchains = [toolchain for toolchain in recipe.toolchains if not name or toolchain.name == name]
    if not toolchains or (equals and not path):
        known = ", ".join(toolchain.name for toolchain in recipe.toolchains)
        raise Stopped(f"{recipe.name} has no toolchain {requested!r}; it has: {known}", USAGE)
    absent: list[Absent] = []
    for toolchain in toolchains:
        found = find(toolchain, path=path)
        if isinstance(found, Compiler):
            return toolchain, found
        absent.append(found)
    raise Stopped(_nothing(recipe, absent, how_to_install), MISSING)


def _nothing(recipe: Recipe, absent: list[Absent], how_to_install: Callable[[UserToolchain], str]) -> str:
    """Return one line: what was looked for, what was found instead, and what to install."""
    missing = [each for each in absent if not each.lacks_gpu]
    if not missing:
        return f"{recipe.name}: not compiled: this machine has {absent[0].refused[0]}"
    tried = [
        _described(each.toolchain) + (f" ({', '.join(each.refused)})" if each.refused else "")
        for each in absent
    ]
    easiest = missing[-1].toolchain
    install = how_to_install(easiest)
    if len(tried) == 1:
        return f"{recipe.name}: not compiled: no {tried[0]}: {install}"
    return (
        f"{recipe.name}: not compiled: found none of {'; '.join(tried)}. For {_described(easiest)}: {install}"
    )


def _described(toolchain: UserToolchain) -> str:
    offload = f" with offloading to {toolchain.offload}" if toolchain.offload else ""
    return f"{toolchain.program} {toolchain.version}".strip() + offload
