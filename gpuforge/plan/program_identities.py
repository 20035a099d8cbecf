"""The identities of installed programs, to run a plan that was made on another machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gpuforge.plan.action import Program
from gpuforge.toolchains import cpython, detect
from gpuforge.toolkits.providers import system


def identities(kind: Program, path: Path) -> frozenset[str]:
    """Return the identities, as keys have them, of the program at a path of this machine; none without one."""
    return _ASK[kind](path)


def _interpreter(path: Path) -> frozenset[str]:
    found = cpython.ask(path)
    return frozenset({found.identity} if found else ())


def _toolkit(path: Path) -> frozenset[str]:
    return frozenset(each.identity for each in system.installed([path]))


_ASK: Mapping[Program, Callable[[Path], frozenset[str]]] = {
    "compiler": detect.identities,
    "interpreter": _interpreter,
    "toolkit": _toolkit,
}
