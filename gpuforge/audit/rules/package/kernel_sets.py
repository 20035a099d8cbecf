"""GF701: kernel sets that are not what their index says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import KernelSet, WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.runnable import common_images


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each set's index with the files beside it and the images in them, and the sets with the manifest."""
    for wheel in graph.wheels:
        for kernels in wheel.kernels:
            for file, problem in _problems(wheel, kernels):
                yield _finding(wheel, f"{kernels.folder}/{file}", problem)
        for sources in wheel.sources:
            for problem in _stand_ins(wheel, sources.recipe):
                yield _finding(wheel, f"{sources.folder}/recipe.json", problem)
        names = {kernels.folder.rpartition("/")[2] for kernels in wheel.kernels}
        expectation = graph.expectation_of(wheel)
        targets = expectation.targets if expectation else {}
        for kernels in wheel.kernels:
            for problem in _targets(kernels, targets.get(kernels.folder.rpartition("/")[2])):
                yield _finding(wheel, f"{kernels.folder}/index.json", problem)
        for name in (*expectation.kernel_sets, *expectation.library_sets) if expectation else ():
            if name not in names:
                text = f"the fallback object {name!r} of the manifest is not in the wheel"
                yield _finding(wheel, "", _Problem("missing", text, (name,)))


RULE = Rule(
    code="GF701",
    severity="error",
    title="a kernel set does not match its index",
    check=check,
    contradicts="kernel sets",
)


class _Problem(NamedTuple):
    """What does not match: its kind, a constant word, the same in words, and the names that it is about."""

    kind: str
    text: str
    about: tuple[str, ...] = ()


def _problems(wheel: WheelFacts, kernels: KernelSet) -> Iterator[tuple[str, _Problem]]:
    """Yield each file that does not match the index, with the problem."""
    if kernels.problem:
        yield "index.json", _Problem("unreadable", kernels.problem)
        return
    key, what = (
        ("libraries", "a library") if kernels.listing.get("kind") == "library" else ("modules", "a module")
    )
    entries = kernels.listing.get(key)
    if kernels.listing.get("schema") != 1 or not isinstance(entries, list) or not entries:
        yield "index.json", _Problem("schema", f"it is not an index of schema 1 with {key}")
        return
    indexed = set()
    for entry in entries:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("file"), str):
            yield "index.json", _Problem("entry", f"{what} has no file")
            continue
        file = entry["file"]
        indexed.add(file)
        if file not in kernels.digests:
            yield file, _Problem("missing", "it is in the index and not in the wheel")
        elif kernels.digests[file] != entry.get("sha256"):
            yield file, _Problem("differs", "its sha256 is not the one in the index")
        else:
            compare = _library_images if key == "libraries" else _images
            yield from compare(wheel, f"{kernels.folder}/{file}", file, entry.get("images"))
    for file in sorted(kernels.digests.keys() - indexed):
        yield file, _Problem("not listed", "it is in the folder and not in the index")


def _targets(kernels: KernelSet, declared: Sequence[str] | None) -> Iterator[_Problem]:
    """Yield the targets of the manifest that a set's index has no image for, and images for others."""
    entries = kernels.listing.get("libraries", kernels.listing.get("modules"))
    if declared is None or not isinstance(entries, list):
        return
    found = {
        f"{kind} {arch or ''}".rstrip()
        for entry in entries
        if isinstance(entry, Mapping)
        for kind, arch in _listed(entry.get("images"))
    }
    for name in sorted({*declared} - found):
        yield _Problem("missing", f"it has nothing for the target {name} of the manifest", (name,))
    for name in sorted(found - {*declared}):
        yield _Problem("not declared", f"it has {name}, which is not a target of the manifest", (name,))


def _stand_ins(wheel: WheelFacts, recipe: Mapping[str, object]) -> Iterator[_Problem]:
    """Compare the fallbacks of a recipe with those in the wheel; those in kernels wheels are checked by GF711."""
    there = {kernels.folder.rpartition("/")[2]: kernels.listing for kernels in wheel.kernels}
    apart = wheel.kernels_wheels.get("sets")
    known = (
        {_word(each.get("name")) for each in apart if isinstance(each, Mapping)}
        if isinstance(apart, list)
        else set()
    )
    fallbacks = recipe.get("fallbacks")
    named = [*(fallbacks if isinstance(fallbacks, list) else ()), recipe.get("cpu")]
    for name in (each for each in named if isinstance(each, str) and each):
        if name not in there and name not in known:
            yield _Problem("missing", f"its fallback {name!r} is not in the wheel", (name,))
        listing = there.get(name, {})
        if listing.get("kind") == "library" and listing.get("abi") != recipe.get("abi"):
            text = f"it has the ABI {recipe.get('abi')}, and its fallback {name!r} {listing.get('abi')}"
            yield _Problem("ABI", text, (name,))


def _library_images(
    wheel: WheelFacts, member: str, file: str, listed: object
) -> Iterator[tuple[str, _Problem]]:
    """Compare the GPU code of each container of a library with the index; a library for CPUs has none."""
    images = _listed(listed)
    if any(kind == "library" for kind, _ in images):
        return
    containers = next((code.containers for code in wheel.device if code.file == member), ())
    real = {(e.kind, e.target) for e in common_images(containers)}
    yield from _compare(file, images, real)


def _images(wheel: WheelFacts, member: str, file: str, listed: object) -> Iterator[tuple[str, _Problem]]:
    containers = next((code.containers for code in wheel.device if code.file == member), ())
    real = {(e.kind, e.target) for c in containers for e in c.entries if e.kind in ("cubin", "ptx")}
    images = _listed(listed)
    if any(str(kind).startswith("iree-") for kind, _ in images):  # one for CUDA has PTX, any other has none
        images = {("ptx", arch) for kind, arch in images if kind == "iree-cuda"}
    yield from _compare(file, images, real)


def _listed(listed: object) -> set[tuple[object, object]]:
    images = listed if isinstance(listed, list) else []
    return {
        (_word(image.get("kind")), _word(image.get("arch"))) for image in images if isinstance(image, Mapping)
    }


def _word(value: object) -> str | None:
    """Return a value of an index as one that can be compared, whatever its type."""
    return value if isinstance(value, str) or value is None else repr(value)


def _compare(
    file: str, images: set[tuple[object, object]], real: Set[tuple[str, str]]
) -> Iterator[tuple[str, _Problem]]:
    for kind, arch in sorted(images - real, key=str):
        text = f"the index lists {kind} {arch}, which is not in it"
        yield file, _Problem("missing", text, (f"{kind}", f"{arch}"))
    for kind, arch in sorted(real - images, key=str):
        text = f"it has {kind} {arch}, which the index does not list"
        yield file, _Problem("not listed", text, (f"{kind}", f"{arch}"))


def _finding(wheel: WheelFacts, file: str, problem: _Problem) -> Finding:
    return RULE.finding(
        wheel.name,
        files=(file,) if file else (),
        subjects=(Subject(file=file, detail=problem.text, kind=problem.kind, about=problem.about),),
        what="Kernel sets do not match their index.",
        why="The runtime refuses them, or finds no kernel.",
        fix="Build the wheel again, and change no file after it was indexed.",
    )
