"""GF701: kernel sets that are not what their index says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import KernelSet, WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.runnable import common_images


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each set's index with the files beside it and the images in them, and the sets with the manifest."""
    for wheel in graph.wheels:
        for held in wheel.kernels:
            for file, problem in _problems(wheel, held):
                yield _finding(wheel, f"{held.folder}/{file}", problem)
        for sources in wheel.sources:
            for problem in _stand_ins(wheel, sources.recipe):
                yield _finding(wheel, f"{sources.folder}/recipe.json", problem)
        names = {held.folder.rpartition("/")[2] for held in wheel.kernels}
        expectation = graph.expectation_of(wheel)
        for name in (*expectation.kernel_sets, *expectation.library_sets) if expectation else ():
            if name not in names:
                yield _finding(wheel, "", f"the fallback object {name!r} of the manifest is not in the wheel")


RULE = Rule(
    code="GF701",
    severity="error",
    title="a kernel set does not match its index",
    check=check,
    contradicts="kernel sets",
)


def _problems(wheel: WheelFacts, held: KernelSet) -> Iterator[tuple[str, str]]:
    if held.problem:
        yield "index.json", held.problem
        return
    if held.listing.get("kind") == "library":
        yield from _libraries(wheel, held)
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


def _stand_ins(wheel: WheelFacts, recipe: Mapping[str, object]) -> Iterator[str]:
    """Compare what a recipe says of the fallbacks with those in the wheel; GF711 is about those in kernels wheels."""
    there = {held.folder.rpartition("/")[2]: held.listing for held in wheel.kernels}
    apart = wheel.kernels_wheels.get("sets")
    known = (
        {each.get("name") for each in apart if isinstance(each, Mapping)}
        if isinstance(apart, list)
        else set()
    )
    fallbacks = recipe.get("fallbacks")
    named = [*(fallbacks if isinstance(fallbacks, list) else ()), recipe.get("cpu")]
    for name in (each for each in named if isinstance(each, str) and each):
        if name not in there and name not in known:
            yield f"its fallback {name!r} is not in the wheel"
        listing = there.get(name, {})
        if listing.get("kind") == "library" and listing.get("abi") != recipe.get("abi"):
            yield f"it has the ABI {recipe.get('abi')}, and its fallback {name!r} {listing.get('abi')}"


def _libraries(wheel: WheelFacts, held: KernelSet) -> Iterator[tuple[str, str]]:
    libraries = held.listing.get("libraries")
    if held.listing.get("schema") != 1 or not isinstance(libraries, list) or not libraries:
        yield "index.json", "it is not an index of schema 1 with libraries"
        return
    indexed = set()
    for library in libraries:
        if not isinstance(library, Mapping) or not isinstance(library.get("file"), str):
            yield "index.json", "a library has no file"
            continue
        file = library["file"]
        indexed.add(file)
        if file not in held.digests:
            yield file, "it is in the index and not in the wheel"
        elif held.digests[file] != library.get("sha256"):
            yield file, "its sha256 is not the one in the index"
        else:
            yield from _library_images(wheel, f"{held.folder}/{file}", file, library.get("images"))
    for other in sorted(held.digests.keys() - indexed):
        yield other, "it is in the folder and not in the index"


def _library_images(wheel: WheelFacts, member: str, file: str, listed: object) -> Iterator[tuple[str, str]]:
    """Compare the GPU code that each container of a library has with what is listed; one for CPUs promises none."""
    said = _said(listed)
    if any(kind == "library" for kind, _ in said):
        return
    containers = next((code.containers for code in wheel.device if code.file == member), ())
    real = {(e.kind, e.target) for e in common_images(containers)}
    yield from _compare(file, said, real)


def _images(wheel: WheelFacts, member: str, file: str, listed: object) -> Iterator[tuple[str, str]]:
    containers = next((code.containers for code in wheel.device if code.file == member), ())
    real = {(e.kind, e.target) for c in containers for e in c.entries if e.kind in ("cubin", "ptx")}
    yield from _compare(file, _said(listed), real)


def _said(listed: object) -> set[tuple[object, object]]:
    images = listed if isinstance(listed, list) else []
    return {(image.get("kind"), image.get("arch")) for image in images if isinstance(image, Mapping)}


def _compare(
    file: str, said: set[tuple[object, object]], real: Set[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    for kind, arch in sorted(said - real, key=str):
        yield file, f"the index lists {kind} {arch}, which is not in it"
    for kind, arch in sorted(real - said, key=str):
        yield file, f"it has {kind} {arch}, which the index does not list"


def _finding(wheel: WheelFacts, file: str, problem: str) -> Finding:
    return RULE.finding(
        wheel.name,
        files=(file,) if file else (),
        subjects=(Subject(file=file, detail=problem),),
        what="Kernel sets do not match their index.",
        why="The runtime refuses them, or finds no kernel.",
        fix="Build the wheel again, and change no file after it was indexed.",
    )
