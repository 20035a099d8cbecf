"""GF102: two images of the CUDA runtime in one process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuforge.audit.graph import Edge, LinkGraph
from gpuforge.audit.model import ElfObject, Finding, Severity, WheelFacts
from gpuforge.audit.rules.rule import variant_family
from gpuforge.toolkits import libraries

CODE = "GF102"
SEVERITY: Severity = "error"
TITLE = "two CUDA runtimes would be loaded into one process"

_RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu\d+)?")


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Look at what each import pulls in, and at what the imports of one wheel pull in together."""
    for wheel in graph.wheels:
        sets = [s for s in graph.load_sets if s.root.wheel == wheel.name]
        groups = [(s.root.file, s.objects) for s in sets]
        together = [o for s in sets if not s.root.program and not variant_family(s.root) for o in s.objects]
        groups.append(("", tuple(dict.fromkeys(together, None))))
        said: set[frozenset[str]] = set()
        for file, objects in groups:
            images = _images(graph, objects)
            if len(images) > 1 and frozenset(images) not in said:
                said.add(frozenset(images))
                yield _finding(wheel, file, images)


def _images(graph: LinkGraph, objects: Iterable[ElfObject]) -> dict[str, str]:
    """Return the images of libcudart that these objects bring, each with who loads it."""
    found: dict[str, str] = {}
    for held in objects:
        for edge in graph.from_object(held):
            for image in _brought(graph, edge):
                found.setdefault(image, f"loaded by {held.file}")
    return found


def _brought(graph: LinkGraph, edge: Edge) -> Iterator[str]:
    target = edge.provider.object
    if target is not None:
        if libraries.plain_name(target.name).startswith("libcudart.so") and edge.route:
            yield target.file
    elif (
        edge.provider.source == "package"
        and edge.needed.startswith("libcudart.so")
        and edge.provider.declared
    ):
        yield f"the one of {edge.provider.package}"
    elif edge.route.startswith("import "):
        loader = edge.route.removeprefix("import ")
        for package, declared in graph.declared[edge.loader.wheel].items():
            if declared.loaded_by == loader and _RUNTIME.fullmatch(package):
                yield f"the one of {package}"


def _finding(wheel: WheelFacts, file: str, images: dict[str, str]) -> Finding:
    return Finding(
        CODE,
        SEVERITY,
        wheel.name,
        files=(file,) if file else tuple(i for i in images if i in wheel.members),
        subject=tuple(f"{image}, {why}" for image, why in images.items()),
        message="several images of libcudart come into one process: streams, contexts and errors of one are unknown "
        "to the other",
        remedy="exclude libcudart from the graft (auditwheel repair --exclude 'libcudart.so.*') and link every object "
        "with the same one",
    )
