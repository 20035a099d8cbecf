"""Checks a library that was just compiled before it is put in use: ABI, GPU code, runtimes, and whether it loads."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import elf
from ..candidates import wrong_abi
from ..recipe import Recipe, UserToolchain
from .execute import execute
from .installed import LibraryGroup
from .outcome import Stopped
from .recipe import abi_of
from .runtimes import Conflict, conflicts, kinds_of

_LOAD = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL)"
_LOADING_S = 120  # seconds; a runtime may look for devices


def check(
    library: Path,
    recipe: Recipe,
    toolchain: UserToolchain,
    parts: Sequence[LibraryGroup],
    env: Mapping[str, str],
) -> None:
    """Raise Stopped unless the library can be used in one process with the wheel and its requirements."""
    refusal = wrong_abi(str(library), abi_of(recipe))
    if refusal:
        raise Stopped(f"what was compiled cannot be used: {refusal}")
    if toolchain.offload and not any(
        name.startswith("GOMP_offload_register") for name in elf.imports(library)
    ):
        raise Stopped(
            f"what was compiled has no GPU code: the compiler made none for {toolchain.offload}, although it has the "
            "flags for it; look for the pragmas that it should come from"
        )
    for conflict in conflicts(parts, library, env):
        raise Stopped(_refusal(conflict, library, recipe))
    _load(library, env)


def _refusal(conflict: Conflict, library: Path, recipe: Recipe) -> str:
    there, brought = conflict.there, conflict.brought
    has = "has it inside of" if not there.image else "has"
    needs = (
        "has it inside"
        if brought.path == library
        else f"needs {brought.path}" + " with it inside" * (not brought.image)
    )
    owner = f"{there.owner}, which the package requires," if there.owner else "the package"
    return (
        f"what was compiled brings a second {there.kind} into the process: {owner} {has} {there.path}, and the "
        f"compiled library {needs}; {_remedy(conflict, recipe)}"
    )


def _remedy(conflict: Conflict, recipe: Recipe) -> str:
    kind = conflict.there.kind
    others = [
        other.name
        for other in recipe.toolchains
        if not other.by_command and kind not in kinds_of(other.runtimes)
    ]
    if others:
        return f"--toolchain {others[0]} makes one without it"
    return "none of the package's toolchains does without it: ask its maintainer for one"


def _load(library: Path, env: Mapping[str, str]) -> None:
    """Load it in a separate process, which its initialisers may end."""
    argv = [sys.executable, "-I", "-S", "-c", _LOAD, str(library)]
    ended = execute(argv, env=env, limit=_LOADING_S)
    if ended.status is None:
        raise Stopped(f"what was compiled does not load: it took more than {_LOADING_S} s")
    if ended.status:
        lines = ended.output.decode(errors="replace").strip().splitlines() or [f"signal {-ended.status}"]
        raise Stopped(f"what was compiled does not load: {lines[-1].replace('OSError: ', '')}")
