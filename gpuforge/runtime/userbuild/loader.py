"""Finds the libraries that a library brings into a process, like the system's loader, without loading any.

Order of the search: https://man7.org/linux/man-pages/man8/ld.so.8.html
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from .. import elf

_CACHE = Path("/etc/ld.so.cache")
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEAD, _CACHE_ENTRY = 48, 24  # bytes


@dataclass(frozen=True)
class Loaded:
    """A library that will be in the process: the name in NEEDED, and the name by which the loader identifies it."""

    name: str
    path: Path
    soname: str = ""


def graph(first: Sequence[Path], env: Mapping[str, str]) -> list[Loaded]:
    """Return the given libraries and everything that they need, transitively, each file once.

    Missing libraries are left out: another check tests whether a library loads.
    """
    found: dict[Path, Loaded] = {}
    pending = [Loaded(path.name, path) for path in first]
    while pending:
        library = pending.pop(0)
        real = library.path.resolve()
        if real in found:
            continue
        try:
            dynamic = elf.read_dynamic(library.path)
        except (OSError, elf.NotReadable):
            continue
        found[real] = replace(library, soname=dynamic.soname or library.name)
        for name in dynamic.needed:
            path = _find(name, dynamic, env)
            if path:
                pending.append(Loaded(name, path))
    return list(found.values())


def _find(name: str, needed_by: elf.Dynamic, env: Mapping[str, str]) -> Path | None:
    origin = needed_by.path.resolve().parent
    own = [_expanded(entry, origin) for entry in needed_by.search]
    named = [folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in (*own, *named) if needed_by.first else (*named, *own):
        path = Path(folder, name)
        if path.is_file():
            return path
    if name in _system():
        return Path(_system()[name])
    return next((path for folder in _usual() if (path := Path(folder, name)).is_file()), None)


def _expanded(entry: str, origin: Path) -> str:
    for token in ("$ORIGIN", "${ORIGIN}"):
        entry = entry.replace(token, str(origin))
    return entry


def _usual() -> Iterator[str]:
    machine = platform.machine()
    yield from (f"/lib/{machine}-linux-gnu", f"/usr/lib/{machine}-linux-gnu")
    yield from ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")


@lru_cache(maxsize=1)
def _system() -> dict[str, str]:
    """Return the libraries in the loader's cache; an empty table without a cache.

    Format: struct cache_file_new in https://sourceware.org/git/?p=glibc.git;a=blob;f=sysdeps/generic/dl-cache.h
    """
    try:
        data = _CACHE.read_bytes()
    except OSError:
        return {}
    start = data.find(_CACHE_MAGIC)
    if start < 0 or len(data) < start + _CACHE_HEAD:
        return {}
    (count,) = struct.unpack_from("<I", data, start + len(_CACHE_MAGIC))
    entries = data[start + _CACHE_HEAD : start + _CACHE_HEAD + count * _CACHE_ENTRY]
    table: dict[str, str] = {}
    for _, key, value, _, hwcap in struct.iter_unpack("<iIIIQ", entries[: len(entries) // 24 * 24]):
        name, path = (_text(data, start + at) for at in (key, value))
        if not hwcap and (name not in table) and _is_native(path):
            table[name] = path
    return table


def _text(data: bytes, at: int) -> str:
    return os.fsdecode(data[at : data.find(b"\0", at)])


def _is_native(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read(5) == b"\x7fELF\x02"  # a 64-bit file
    except OSError:
        return False
