"""What a worker can do and what an action needs, as amounts by name, so that an engine's scheduler can match them."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from importlib.metadata import version
from pathlib import Path

import gpuforge
from gpuforge import digest
from gpuforge.containers.connect import connect
from gpuforge.errors import MissingError
from gpuforge.plan.action import Action

CONTAINERS = "containers"
GPUS = "gpus"
MEMORY = "memory"
_DEVICES = "nvidia[0-9]*"  # of /dev; the driver makes one for each GPU


@cache
def identity() -> str:
    """Return what a worker must have in common with the client: gpuforge's version and code, and the Python."""
    root = Path(gpuforge.__file__).parent
    code = [path for path in root.rglob("*") if path.suffix in {".py", ".toml", ".json"}]
    python = ".".join(map(str, sys.version_info[:2]))
    return f"gpuforge {version('gpuforge')} (code {digest.of_files(root, code)[:12]}) on Python {python}"


def machine() -> str:
    """Return the name of the ability to run programs of this machine's type."""
    return f"machine {platform.machine()}"


def of_this_machine() -> dict[str, float]:
    """Return what a worker on this machine can do."""
    found: dict[str, float] = {identity(): 1, machine(): 1, MEMORY: _memory()}
    try:
        with closing(connect()):
            found[CONTAINERS] = 1
    except MissingError:
        pass
    if gpus := len([*Path("/dev").glob(_DEVICES)]):
        found[GPUS] = gpus
    return found


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def needed(action: Action, memory: int | None) -> dict[str, float]:
    """Return what a worker must be able to do for an action; `memory` is the limit of its container, if any."""
    found: dict[str, float] = {identity(): 1, machine(): 1}
    if action.image:
        found[CONTAINERS] = 1
        if memory:
            found[MEMORY] = memory
    if action.gpu:
        found[GPUS] = 1
    return found


def lacking(needs: Mapping[str, float], has: Mapping[str, float]) -> Iterator[str]:
    """Yield, in words, what a worker lacks of what an action needs."""
    for name, amount in needs.items():
        if has.get(name, 0) >= amount:
            continue
        if name == identity():
            other = next((each for each in has if each.startswith("gpuforge ")), "")
            yield f"has {other}" if other else "was started without gpuforge's preload"
        elif name == CONTAINERS:
            yield "has no container engine"
        elif name == GPUS:
            yield "has no GPU"
        elif name == MEMORY:
            yield f"has {has.get(name, 0) / 1e9:.0f} GB of memory, not {amount / 1e9:.0f}"
        else:
            yield f"is no {name}"
