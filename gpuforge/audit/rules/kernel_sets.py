"""GF701: kernel sets that are not what their index says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.model import Finding, KernelSet, Severity, WheelFacts

CODE = "GF701"
SEVERITY: Severity = "error"
TITLE = "a kernel set does not match its index"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each set's index with the files beside it and the images in them, and the sets with the manifest."""
    for wheel in graph.wheels:
        for held in wheel.kernels:
            for file, problem in _problems(wheel, held):
                yield _finding(wheel, f"{held.folder}/{file}", problem)
        names = {held.folder.rpartition("/")[2] for held in wheel.kernels}
        intent = graph.intent_of(wheel)
        for name in (*intent.kernel_sets, *intent.library_sets) if intent else ():
            if name not in names:
                yield _finding(wheel, "", f"the fallback object {name!r} of the manifest is not in the wheel")


def _problems(wheel: WheelFacts, held: KernelSet) -> Iterator[tuple[str, str]]:
    if held.problem:
        yield "index.json", held.problem
        return
    if held.listing.get("kind") == "library":
        yield from _library(held)
        return
    modules = held.listing.get("modules")
    if held.listing.get("schema") != 1 or not isinstance(modules, list) or not modules:
        yield "index.json", "it is not an index of schema 1 with modules"
        return
    indexed = set()
    for module in modules:
        if not isinstance(module, Mapping) or not isinstance(module.get("file"), str):
            yield "index.json", "a module has no file"
            continue
        file = module["file"]
        indexed.add(file)
        if file not in held.digests:
            yield file, "it is in the index and not in the wheel"
        elif held.digests[file] != module.get("sha256"):
            yield file, "its sha256 is not the one in the index"
        else:
            yield from _images(wheel, f"{held.folder}/{file}", file, module.get("images"))
    for file in sorted(held.digests.keys() - indexed):
        yield file, "it is in the folder and not in the index"


def _library(held: KernelSet) -> Iterator[tuple[str, str]]:
    library = held.listing.get("library")
    file = library.get("file") if isinstance(library, Mapping) else None
    if held.listing.get("schema") != 1 or not isinstance(library, Mapping) or not isinstance(file, str):
        yield "index.json", "it is not an index of schema 1 with a library"
    elif file not in held.digests:
        yield file, "it is in the index and not in the wheel"
    elif held.digests[file] != library.get("sha256"):
        yield file, "its sha256 is not the one in the index"
    for other in sorted(held.digests.keys() - {file}):
        yield other, "it is in the folder and not in the index"


def _images(wheel: WheelFacts, member: str, file: str, listed: object) -> Iterator[tuple[str, str]]:
    containers = next((code.containers for code in wheel.device if code.file == member), ())
    real = {(e.kind, e.arch) for c in containers for e in c.entries if e.kind in ("cubin", "ptx")}
    said = {
        (image.get("kind"), image.get("arch"))
        for image in (listed if isinstance(listed, list) else [])
        if isinstance(image, Mapping)
    }
    for kind, arch in sorted(said - real, key=str):
        yield file, f"the index lists {kind} {arch}, which is not in it"
    for kind, arch in sorted(real - said):
        yield file, f"it has {kind} {arch}, which the index does not list"


def _finding(wheel: WheelFacts, file: str, problem: str) -> Finding:
    return Finding(
        CODE,
        SEVERITY,
        wheel.name,
        files=(file,) if file else (),
        subject=(f"{file}: {problem}" if file else problem,),
        message="kernel sets are not what their index says: the runtime will refuse them, or find no kernel",
        remedy="build the wheel again; nothing may change these files after they were indexed",
    )
