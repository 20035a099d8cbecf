"""Finds toolchain runtimes that would be in one process twice: the wheel's copy, and that of a new library."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import elf
from .families import FAMILIES
from .loader import Loaded, graph

# auditwheel's libx-0a1b2c3d.so.1 and delocate's libx.0a1b2c3d.so.1
_HASHED = re.compile(r"(?P<stem>lib[^/]+?)[-.][0-9a-f]{8}(?P<rest>(\.[^/]*)?\.so.*)")
_CUDART = "libcudart.so"
# Texts that only libcudart holds, and what it is linked into.
_STATIC_CUDART = (b"cudaErrorCudartUnloading", b"/cudart.shm.%")
_ONE_VERSION = {"nvhpc", "pgi"}  # runtimes that fit their own release only, whatever their names


@dataclass(frozen=True)
class Conflict:
    """One runtime that would be loaded twice: `ours` for the wheel, `theirs` for the new library."""

    runtime: str  # "libgomp.so"
    ours: Path
    theirs: Path
    needed_by: Path  # what brings `theirs`


def conflicts(wheel: Sequence[Path], library: Path, env: Mapping[str, str]) -> list[Conflict]:
    """Return the runtimes that the wheel's libraries and a new one would bring into a process in two copies."""
    ours, theirs = _runtimes(graph(wheel, env)), _runtimes(graph([library], env))
    return [
        Conflict(stem, mine.path, other.path, other.needed_by or other.path)
        for stem, others in theirs.items()
        for other in others
        for mine in ours.get(stem, [])
        if _two_copies(stem, mine, other)
    ]


def _runtimes(loaded: Sequence[Loaded]) -> dict[str, list[Loaded]]:
    found: dict[str, list[Loaded]] = {}
    for library in loaded:
        for stem in _stems(library):
            found.setdefault(stem, []).append(library)
    return found


def _stems(library: Loaded) -> Iterator[str]:
    """Yield the runtimes that a library is or holds, without hashes and versions."""
    stem = _stem(library.name)
    if stem in FAMILIES or stem == _CUDART:
        yield stem
    elif _holds_cudart(library.path):
        yield _CUDART


def _stem(name: str) -> str:
    match = _HASHED.fullmatch(name)
    plain = match["stem"] + match["rest"] if match else name
    head, dot_so, _ = plain.partition(".so")
    return head + dot_so


def _two_copies(stem: str, mine: Loaded, other: Loaded) -> bool:
    """Return whether both are loaded: the loader takes two files for one when they have the same SONAME."""
    if mine.path.resolve() == other.path.resolve():
        return False
    static = [library for library in (mine, other) if _stem(library.name) != stem]
    if static:  # each with a copy linked in see the same device; a shared one beside it does not
        return len(static) == 1
    if FAMILIES.get(stem) in _ONE_VERSION:
        return mine.path.read_bytes() != other.path.read_bytes()
    return _soname(mine) != _soname(other)


def _soname(library: Loaded) -> str:
    return elf.read_dynamic(library.path).soname or library.name


def _holds_cudart(path: Path) -> bool:
    with path.open("rb") as stream:
        if not path.stat().st_size:
            return False
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(text) >= 0 for text in _STATIC_CUDART)
