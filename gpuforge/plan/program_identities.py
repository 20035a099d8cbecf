"""Programs that are installed on a machine: what they are, for a plan that was made on another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gpuforge.plan.action import Program
from gpuforge.toolchains import cpython, detect
from gpuforge.toolkits.providers import system


def identities(kind: Program, path: Path) -> frozenset[str]:
    """Return how keys would name what lies at a path of this machine; nothing where no such program answers."""
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
