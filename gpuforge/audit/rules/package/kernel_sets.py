"""GF701: kernel sets that are not what their index says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from gpuforge.audit.embedded import Index, KernelSet, KernelsWheels, Recipe, Unusable
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import FatbinEntry
from gpuforge.binary.runnable import common_images
from gpuforge.cuda.cpu_level import CpuLevel
from gpuforge.cuda.image_kind import kind_of
from gpuforge.cuda.kernel_image import KernelImage
from gpuforge.cuda.version import numbers_of
from gpuforge.embedded import layout


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each set's index with the files beside it and the images in them, and the sets with the manifest."""
    for wheel in graph.wheels:
        for kernels in wheel.kernels:
            for file, each in _problems(wheel, kernels):
                yield _finding(wheel, f"{kernels.folder}/{file}", each)
        for sources in wheel.sources:
            for each in _stand_ins(wheel, sources.recipe) if isinstance(sources.recipe, Recipe) else ():
                yield _finding(wheel, layout.recipe(sources.folder), each)
        names = {kernels.name for kernels in wheel.kernels}
        expectation = graph.expectation_of(wheel)
        targets = expectation.targets if expectation else {}
        for kernels in wheel.kernels:
            for each in _targets(kernels, targets.get(kernels.name)):
                yield _finding(wheel, layout.index(kernels.folder), each)
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
    if isinstance(kernels.listing, Unusable):
        yield layout.INDEX, _Problem(*kernels.listing)
        return
    compare = _library_images if kernels.listing.kind == "library" else _images
    for listed in kernels.listing.files:
        file = listed.file
        if file not in kernels.digests:
            yield file, _Problem("missing", "it is in the index and not in the wheel")
        elif kernels.digests[file] != listed.sha256:
            yield file, _Problem("differs", "its sha256 is not the one in the index")
        else:
            yield from compare(wheel, f"{kernels.folder}/{file}", file, {*listed.images})
    for file in sorted(kernels.digests.keys() - {listed.file for listed in kernels.listing.files}):
        yield file, _Problem("not listed", "it is in the folder and not in the index")


def _targets(kernels: KernelSet, declared: Sequence[KernelImage] | None) -> Iterator[_Problem]:
    """Yield the targets of the manifest that a set's index has no image for, and images for others."""
    if declared is None or isinstance(kernels.listing, Unusable):
        return
    found = {image._replace(isa="") for image in kernels.images}
    for name in sorted(map(_name, {*declared} - found)):
        yield _Problem("missing", f"it has nothing for the target {name} of the manifest", (name,))
    for name in sorted(map(_name, found - {*declared})):
        yield _Problem("not declared", f"it has {name}, which is not a target of the manifest", (name,))


def _name(image: KernelImage) -> str:
    return f"{image.kind} {image.target}".rstrip()


def _stand_ins(wheel: WheelFacts, recipe: Recipe) -> Iterator[_Problem]:
    """Compare the fallbacks of a recipe with those in the wheel; those in kernels wheels are checked by GF711."""
    there = {kernels.name: kernels.listing for kernels in wheel.kernels}
    apart = wheel.kernels_wheels.sets if isinstance(wheel.kernels_wheels, KernelsWheels) else {}
    for name in recipe.stand_ins:
        if name not in there and name not in apart:
            yield _Problem("missing", f"its fallback {name!r} is not in the wheel", (name,))
        index = there.get(name)
        if isinstance(index, Index) and index.kind == "library" and index.abi != recipe.abi:
            text = f"it has the ABI {recipe.abi}, and its fallback {name!r} {index.abi}"
            yield _Problem("ABI", text, (name,))


def _library_images(
    wheel: WheelFacts, member: str, file: str, images: Set[KernelImage]
) -> Iterator[tuple[str, _Problem]]:
    """Compare a library with the index: the GPU code of each container, or the level of CPUs that it needs."""
    levels = {image.built_for for image in images if isinstance(image.built_for, CpuLevel)}
    if levels:
        library = next((each for each in wheel.objects if each.file == member), None)
        if library is None:
            yield file, _Problem("no library", "the index lists it as a library, and it is not an ELF file")
        needed = CpuLevel(library.isa if library else "")
        for level in sorted(level for level in levels if level.rank < needed.rank):
            text = f"the index lists it for {level.name or 'any CPU'}, and it needs {needed.name}"
            yield file, _Problem("CPU level", text, (level.name, needed.name))
    images = {image for image in images if image.built_for not in levels}
    if images:
        containers = next((code.containers for code in wheel.device if code.file == member), ())
        yield from _compare(file, images, {_of_entry(e) for e in common_images(containers)})


def _images(
    wheel: WheelFacts, member: str, file: str, images: Set[KernelImage]
) -> Iterator[tuple[str, _Problem]]:
    containers = next((code.containers for code in wheel.device if code.file == member), ())
    real = {_of_entry(e) for c in containers for e in c.entries if e.kind in ("cubin", "ptx")}
    of_iree = {image for image in images if kind_of(image.kind).loader == "IREE"}
    its_ptx = {image._replace(kind="ptx") for image in of_iree if kind_of(image.kind).has_ptx}
    if its_ptx:  # the index has the newest ISA of its texts
        newest = {(e.kind, e.built_for): e for e in sorted(real, key=lambda e: numbers_of(e.isa))}
        real = {*newest.values()}
    yield from _compare(file, (images - of_iree) | its_ptx, real)


def _of_entry(entry: FatbinEntry) -> KernelImage:
    return KernelImage(entry.kind, entry.arch, entry.isa)


def _compare(file: str, images: Set[KernelImage], real: Set[KernelImage]) -> Iterator[tuple[str, _Problem]]:
    """Compare what the images are for, then the ISA of PTX that both have."""
    listed, found = _isas(images), _isas(real)
    for kind, target in sorted(listed.keys() - found.keys()):
        text = f"the index lists {kind} {target}, which is not in it"
        yield file, _Problem("missing", text, (kind, target))
    for kind, target in sorted(found.keys() - listed.keys()):
        text = f"it has {kind} {target}, which the index does not list"
        yield file, _Problem("not listed", text, (kind, target))
    for kind, target in sorted(listed.keys() & found.keys()):
        if listed[kind, target] != found[kind, target]:
            isas = [", ".join(sorted(each[kind, target], key=numbers_of)) for each in (listed, found)]
            text = f"the index lists {kind} {target} of PTX {isas[0]}, and it has PTX {isas[1]}"
            yield file, _Problem("ISA", text, (kind, target))


def _isas(images: Set[KernelImage]) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for image in images:
        found.setdefault((image.kind, image.target), set()).add(image.isa)
    return found


def _finding(wheel: WheelFacts, file: str, found: _Problem) -> Finding:
    return RULE.finding(
        wheel.name,
        files=(file,) if file else (),
        subjects=(Subject(file=file, detail=found.text, kind=found.kind, about=found.about),),
        what="Kernel sets do not match their index.",
        why="The runtime refuses them, or finds no kernel.",
        fix="Build the wheel again, and change no file after it was indexed.",
    )
