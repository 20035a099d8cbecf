"""The images of the CUDA runtime (libcudart) in a process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from gpuforge.audit.link.graph import Edge, LinkGraph
from gpuforge.audit.rules.runtimes.processes import Image, images
from gpuforge.audit.rules.variants import variant_family
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries

_RUNTIME = r"nvidia-cuda-runtime(-cu\d+)?"


def cudart_images(graph: LinkGraph, objects: Iterable[ElfObject]) -> list[Image]:
    """List the images of libcudart that these objects bring, `soname` being cut to "libcudart.so.12"."""
    held = list(objects)
    found = images(graph, held, _is_cudart)
    imported = graph.those(_is_imported)
    found += [i for o in held for edge in imported.get((o.wheel, o.file), ()) for i in _carried(graph, edge)]
    unique: dict[str, Image] = {}
    for image in found:
        major = ".".join(image.soname.split(".")[:3])
        unique.setdefault(image.name, image._replace(soname=major))
    return list(unique.values())


def _is_cudart(soname: str) -> bool:
    return soname.startswith("libcudart.so.")


def _is_imported(edge: Edge) -> bool:
    return edge.route.startswith("import ") and edge.provider.object is None


def _carried(graph: LinkGraph, edge: Edge) -> Iterator[Image]:
    """Yield the libcudart that importing a package (torch) has loaded, if it is not given or brings its own.

    One of several variants for different CUDA versions is chosen by the version that has been loaded.
    """
    if variant_family(edge.loader):
        return
    loader = edge.route.removeprefix("import ")
    importing = graph.declared[edge.loader.wheel].get(loader)
    if importing and any(soname.startswith("libcudart.so") for soname in importing.carries):
        return  # it has its own, which is found as such
    for package, known in graph.declared[edge.loader.wheel].items():
        if known.loaded_by == loader and re.fullmatch(_RUNTIME, package):
            soname = next((s for s, p in _sonames() if p == package), "libcudart.so")
            given = next((o for w in graph.wheels if w.project == package for o in w.objects), None)
            name = given.file if given else f"the one of {package}"
            yield Image(name, soname, edge.loader.wheel, edge.route, soname)


@cache
def _sonames() -> list[tuple[str, str]]:
    entries = (e for cuda in (11, 12, 13) for e in libraries.toolkit_libraries(cuda))
    return [(e.soname, e.package) for e in entries if e.soname.startswith("libcudart.so")]
