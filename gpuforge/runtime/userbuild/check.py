"""Judges a library that was just compiled before it is put in use: ABI, GPU code, runtimes, and whether it loads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import elf
from ..candidates import wrong_abi
from .outcome import Stopped
from .recipe import Recipe, Toolchain
from .runtimes import conflicts

_LOAD = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL)"
_LOADING_S = 120  # seconds; a runtime may look for devices


def check(
    library: Path, recipe: Recipe, toolchain: Toolchain, wheel: Sequence[Path], env: Mapping[str, str]
) -> None:
    """Raise Stopped unless the library can be used in one process with the wheel's own libraries."""
    refusal = wrong_abi(str(library), recipe.abi)
    if refusal:
        raise Stopped(f"what was compiled cannot be used: {refusal}")
    if toolchain.offload and not any(
        name.startswith("GOMP_offload_register") for name in elf.imports(library)
    ):
        raise Stopped(
            f"what was compiled has no GPU code: the compiler made none for {toolchain.offload}, although it has the "
            "flags for it; look for the pragmas that it should come from"
        )
    for found in conflicts(wheel, library, env):
        raise Stopped(
            f"what was compiled brings a second {found.runtime} into the process: the package has {found.ours}, and "
            f"the compiled library needs {found.theirs}; use a toolchain without it, or ask the package's maintainer "
            "to leave it out of the wheel"
        )
    _load(library, env)


def _load(library: Path, env: Mapping[str, str]) -> None:
    """Load it in a process of its own: what it runs when it is loaded may end that process."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LOAD, str(library)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(env),
            timeout=_LOADING_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Stopped(f"what was compiled does not load: it took more than {_LOADING_S} s") from None
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or [f"signal {-done.returncode}"])[
            -1
        ]
        raise Stopped(f"what was compiled does not load: {last.replace('OSError: ', '')}")
