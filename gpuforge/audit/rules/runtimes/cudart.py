"""The copies of the CUDA runtime (libcudart) in a process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.runtimes.loaded import LibraryOrigin, LoadedLibrary, loaded_libraries
from gpuforge.audit.rules.variants import variant_family
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames


def loaded_cudarts(graph: LinkGraph, objects: Iterable[ElfObject]) -> list[LoadedLibrary]:
    """List the copies of libcudart that these objects load, with `soname` shortened to "libcudart.so.12"."""
    objects_once = list(objects)
    found = loaded_libraries(graph, objects_once, _has_version)
    imported = graph.edges_where(_is_imported_unseen)
    found += [
        i for o in objects_once for edge in imported.get((o.wheel, o.file), ()) for i in _carried(graph, edge)
    ]
    unique: dict[LibraryOrigin, LoadedLibrary] = {}
    for copy in found:
        unique.setdefault(copy.origin, copy._replace(soname=sonames.cut_to_major(copy.soname)))
    return list(unique.values())


def _has_version(soname: str) -> bool:
    return libraries.is_cudart(soname) and bool(sonames.version(soname))


def _is_imported_unseen(edge: Edge) -> bool:
    return bool(edge.imported_unseen)


def _carried(graph: LinkGraph, edge: Edge) -> Iterator[LoadedLibrary]:
    """Yield the libcudart that importing a package (torch) has loaded, unless it is in that package.

    A variant for one CUDA version yields none: Python code chooses it by the version that has been loaded.
    """
    if variant_family(edge.loader):
        return
    importing = graph.declared[edge.loader.wheel].get(edge.imported_unseen)
    if importing and any(map(libraries.is_cudart, importing.carries)):
        return  # its own libcudart is found elsewhere
    for package, known in graph.declared[edge.loader.wheel].items():
        if known.loaded_by == edge.imported_unseen and package in _packages():
            soname = _packages()[package]
            given = next((o for w in graph.wheels if w.project == package for o in w.objects), None)
            origin = LibraryOrigin("wheel", given.file) if given else LibraryOrigin("package", package)
            yield LoadedLibrary(origin, soname, edge.loader.wheel, "", soname, imported=edge.imported_unseen)


@cache
def _packages() -> Mapping[str, str]:
    """Return the packages that have a libcudart, each with its SONAME."""
    return {
        each.package: each.soname
        for each in libraries.toolkit_libraries()
        if libraries.is_cudart(each.soname)
    }
