"""Finds toolchain runtimes that would be in one process twice: an existing one, and that of a new library."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import elf
from .families import FAMILIES, NVIDIAS, ONE_RELEASE, OPENMP, PROJECTS
from .installed import LibraryGroup
from .loader import Loaded, graph

# auditwheel's libx-0a1b2c3d.so.1 and delocate's libx.0a1b2c3d.so.1
_HASHED = re.compile(r"(?P<stem>lib[^/]+?)[-.][0-9a-f]{8}(?P<rest>(\.[^/]*)?\.so.*)")
_CUDART, _OPENMP = "CUDA runtime", "OpenMP runtime"
# Runtimes with different names and one purpose: two of them in a process are as bad as two of one name.
_KINDS = {"libcudart.so": _CUDART, **dict.fromkeys(OPENMP, _OPENMP)}
# Symbols that every OpenMP runtime exports to compiled code: GCC's, and LLVM's, Intel's and NVIDIA's.
_OPENMP_ENTRIES = ("GOMP_parallel", "__kmpc_fork_call")
# Texts that are only in libcudart, and in libraries that it is linked into.
_STATIC_CUDART = (b"cudaErrorCudartUnloading", b"/cudart.shm.%")


@dataclass(frozen=True)
class Runtime:
    """A runtime in a process: `kind` is its purpose or its name ("libnvc.so"), `image` the loader's name for it.

    `image` is "" if it is linked into a library. `owner` is the package that brings it, "" for the wheel.
    """

    kind: str
    image: str
    path: Path
    owner: str = ""


@dataclass(frozen=True)
class Conflict:
    """A runtime that would be in the process twice: the existing one, and that of the new library."""

    there: Runtime
    brought: Runtime


def conflicts(parts: Sequence[LibraryGroup], library: Path, env: Mapping[str, str]) -> list[Conflict]:
    """Return the runtimes of which a new library would bring another copy into a process with these parts."""
    brought = list(_runtimes(LibraryGroup("", (library,)), {_CUDART, _OPENMP}, env))
    kinds = {runtime.kind for runtime in brought}
    there = [runtime for part in parts for runtime in _runtimes(part, kinds, env)] if kinds else []
    own = {runtime.image for runtime in there if not runtime.owner and runtime.image}
    return [
        Conflict(old, new)
        for new in brought
        for old in there
        if old.kind == new.kind and _two_copies(old, new) and (new.image not in own or old.image == new.image)
    ]


def kinds_of(names: Sequence[str]) -> set[str]:
    """Return the kinds of the runtimes with these SONAMEs."""
    return {kind for name in names for kind in [_kind(name)] if kind}


def _runtimes(part: LibraryGroup, searched: set[str], env: Mapping[str, str]) -> Iterator[Runtime]:
    """Yield the runtimes that a part loads. Files are searched only for those of the kinds `searched`."""
    for library in graph(part.libraries, env):
        kind = _kind(library.soname) or _kind(library.name)
        if kind:
            yield Runtime(kind, library.soname, library.path, part.owner)
            continue
        if _OPENMP in searched and _exports(library.path, _OPENMP_ENTRIES):
            yield Runtime(_OPENMP, library.soname, library.path, part.owner)
        if _CUDART in searched and not _of_nvidia(library, part) and _holds_cudart(library.path):
            yield Runtime(_CUDART, "", library.path, part.owner)


def _kind(name: str) -> str:
    stem = _stem(name)
    return _KINDS.get(stem) or (stem if stem in FAMILIES else "")


def _stem(name: str) -> str:
    """Return a name without hash and version: "libgomp.so" of "libgomp-a34b3233.so.1.0.0"."""
    match = _HASHED.fullmatch(name)
    plain = match["stem"] + match["rest"] if match else name
    head, dot_so, _ = plain.partition(".so")
    return head + dot_so


def _two_copies(old: Runtime, new: Runtime) -> bool:
    """Return whether both are loaded: the loader takes two files with the same SONAME for one."""
    if old.path.resolve() == new.path.resolve():
        return False
    if not (
        old.image and new.image
    ):  # copies that are linked in see the same device; a shared one beside them does not
        return bool(old.image or new.image)
    if old.image != new.image:
        return True
    return FAMILIES.get(_stem(new.image)) in ONE_RELEASE and old.path.read_bytes() != new.path.read_bytes()


def _of_nvidia(library: Loaded, part: LibraryGroup) -> bool:
    return _stem(library.name) in NVIDIAS or part.owner.startswith(PROJECTS)


def _exports(path: Path, symbols: Sequence[str]) -> bool:
    try:
        return elf.defines(path, symbols)
    except elf.NotReadable:  # its symbols are damaged, but its NEEDED entries are known
        return False


def _holds_cudart(path: Path) -> bool:
    with path.open("rb") as stream:
        if not path.stat().st_size:
            return False
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(text) >= 0 for text in _STATIC_CUDART)
