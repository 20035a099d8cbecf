"""Finds CUDA runtimes without a NEEDED entry, linked statically or opened at run time, and their CUDA major."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.nvidia import is_nvidia_library
from gpuforge.audit.rules.runtimes.loaded import How, LibraryOrigin, LoadedLibrary
from gpuforge.audit.rules.variants import variant_family
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, releases, sonames
from gpuforge.cuda.version import major_of


def own_runtimes(graph: LinkGraph, objects: Iterable[ElfObject]) -> Iterator[LoadedLibrary]:
    """Yield a libcudart of the code's CUDA major for each object with GPU code whose runtime is not NEEDED.

    An object that gets CUDA's functions from other objects uses their runtime, and is left out unless a libcudart is
    linked into it statically.
    """
    for found in objects:
        if not found.containers or variant_family(found) or is_nvidia_library(graph, found):
            continue
        static = found.has_static_cudart
        named = any(libraries.is_cudart(sonames.plain_name(n)) for n in found.needed)
        if (named or found.undefined("cuda")) and not static:
            continue
        majors = {major for c in found.containers for e in c.entries for major in _majors(e.toolkit, e.isa)}
        soname = _soname(majors.pop()) if len(majors) == 1 else ""
        if soname:
            how: How = "static" if static else "opened"
            origin = LibraryOrigin("wheel", found.file)
            yield LoadedLibrary(origin, soname, found.wheel, found.file, soname, how=how)


@cache
def _majors(toolkit: str, isa: str) -> frozenset[int]:
    """Return the CUDA majors of an image: by the toolkit that wrote it, or by its PTX ISA."""
    rows = [(r.ptx, r.version) for r in releases.former()] + [(r.ptx, r.version) for r in releases.releases()]
    versions = [toolkit] if toolkit else [version for ptx, version in rows if isa and ptx == isa]
    return frozenset(major_of(version) for version in versions)


@cache
def _soname(major: int) -> str:
    """Return the SONAME of the CUDA runtime of a major; "" if its libraries are not known."""
    known = (e.soname for e in libraries.toolkit_libraries(major))
    return next(filter(libraries.is_cudart, known), "")
