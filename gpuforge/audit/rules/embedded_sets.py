"""GF701, GF702, GF711: kernel sets, user-compiled sources and kernels wheels that do not match their lists."""

from collections.abc import Iterator, Sequence, Set

from gpuforge.audit.embedded import Index, KernelSet, KernelsWheels, Recipe, SourceSet, Unusable
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import rule
from gpuforge.binary.facts import FatbinEntry
from gpuforge.binary.runnable import common_images
from gpuforge.cuda.kernels import KernelImage
from gpuforge.cuda.version import numbers_of
from gpuforge.runtime import layout
from gpuforge.runtime.cpu import CpuLevel
from gpuforge.runtime.values import kind_of


@rule(
    "GF701",
    "error",
    "a kernel set does not match its index",
    what="Kernel sets do not match their index.",
    why="The runtime refuses them, or finds no kernel.",
    fix="Build the wheel again, and change no file after it was indexed.",
    contradicts="kernel sets",
)
def kernel_sets(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Compare each set's index with the files beside it and the images in them, and the sets with the manifest."""
    expectation = graph.expectation_of(wheel)
    for kernels in wheel.kernels:
        yield from _files(wheel, kernels)
    for sources in wheel.sources:
        if isinstance(sources.recipe, Recipe):
            yield from _stand_ins(wheel, sources.recipe, layout.recipe(sources.folder))
    if expectation is None:
        return
    for kernels in wheel.kernels:
        yield from _targets(kernels, expectation.targets.get(kernels.name))
    names = {kernels.name for kernels in wheel.kernels}
    for name in (*expectation.kernel_sets, *expectation.library_sets):
        if name not in names:
            detail = "the fallback object {0!r} of the manifest is not in the wheel"
            yield Subject(detail=detail, kind="missing", about=(name,))


def _files(wheel: WheelFacts, kernels: KernelSet) -> Iterator[Subject]:
    """Yield each file that does not match the index."""
    if isinstance(kernels.listing, Unusable):
        kind, problem = kernels.listing
        file = layout.index(kernels.folder)
        yield Subject(file=file, detail="{problem}", facts=facts_of(problem=problem), kind=kind)
        return
    compare = _library_images if kernels.listing.kind == "library" else _images
    for listed in kernels.listing.files:
        file = f"{kernels.folder}/{listed.file}"
        if listed.file not in kernels.digests:
            yield Subject(file=file, detail="it is in the index and not in the wheel", kind="missing")
        elif kernels.digests[listed.file] != listed.sha256:
            yield Subject(file=file, detail="its sha256 is not the one in the index", kind="differs")
        else:
            yield from compare(wheel, file, {*listed.images})
    for name in sorted(kernels.digests.keys() - {listed.file for listed in kernels.listing.files}):
        file = f"{kernels.folder}/{name}"
        yield Subject(file=file, detail="it is in the folder and not in the index", kind="not listed")


def _targets(kernels: KernelSet, declared: Sequence[KernelImage] | None) -> Iterator[Subject]:
    """Yield the targets of the manifest without an image in a set's index, and images for other targets."""
    if declared is None or isinstance(kernels.listing, Unusable):
        return
    file = layout.index(kernels.folder)
    found = {image._replace(isa="") for image in kernels.images}
    for name in sorted(map(_name, {*declared} - found)):
        detail = "it has nothing for the target {0} of the manifest"
        yield Subject(file=file, detail=detail, kind="missing", about=(name,))
    for name in sorted(map(_name, found - {*declared})):
        detail = "it has {0}, which is not a target of the manifest"
        yield Subject(file=file, detail=detail, kind="not declared", about=(name,))


def _name(image: KernelImage) -> str:
    return f"{image.kind} {image.target}".rstrip()


def _stand_ins(wheel: WheelFacts, recipe: Recipe, file: str) -> Iterator[Subject]:
    """Compare the fallbacks of a recipe with those in the wheel; those in kernels wheels are checked by GF711."""
    there = {kernels.name: kernels.listing for kernels in wheel.kernels}
    apart = wheel.kernels_listing.sets if isinstance(wheel.kernels_listing, KernelsWheels) else {}
    for name in (*recipe.fallbacks, *filter(None, (recipe.cpu,))):
        if name not in there and name not in apart:
            detail = "its fallback {0!r} is not in the wheel"
            yield Subject(file=file, detail=detail, kind="missing", about=(name,))
        index = there.get(name)
        if isinstance(index, Index) and index.kind == "library" and index.abi != recipe.abi:
            detail = "its ABI id is {abi}, that of its fallback {0!r} is {other}"
            facts = facts_of(abi=recipe.abi, other=index.abi)
            yield Subject(file=file, detail=detail, facts=facts, kind="ABI", about=(name,))


def _library_images(wheel: WheelFacts, file: str, images: Set[KernelImage]) -> Iterator[Subject]:
    """Compare a library with the index: the GPU code of each container, or the level of CPUs that it needs."""
    levels = {image.built_for for image in images if isinstance(image.built_for, CpuLevel)}
    if levels:
        library = next((each for each in wheel.objects if each.file == file), None)
        if library is None:
            detail = "the index lists it as a library, and it is not an ELF file"
            yield Subject(file=file, detail=detail, kind="no library")
        needed = CpuLevel(library.isa if library else "")
        for level in sorted(level for level in levels if level.rank < needed.rank):
            listed = "{0}" if level.name else "any CPU"
            detail = "the index lists it for " + listed + ", but it needs {1}"
            yield Subject(file=file, detail=detail, kind="CPU level", about=(level.name, needed.name))
    images = {image for image in images if image.built_for not in levels}
    if images:
        containers = next((code.containers for code in wheel.device if code.file == file), ())
        yield from _compare(file, images, {_of_entry(e) for e in common_images(containers)})


def _images(wheel: WheelFacts, file: str, images: Set[KernelImage]) -> Iterator[Subject]:
    """Compare a module with the index: the GPU code that all of its containers have, or any PTX of an IREE module."""
    containers = next((code.containers for code in wheel.device if code.file == file), ())
    found = [{_of_entry(e) for e in c.entries if e.kind in ("cubin", "ptx")} for c in containers]
    of_iree = {image for image in images if kind_of(image.kind).loader == "IREE"}
    its_ptx = {image._replace(kind="ptx") for image in of_iree if kind_of(image.kind).has_ptx}
    real = set.intersection(*found) if found else set()
    if its_ptx:  # each kernel is a text, and the index has the newest ISA of the texts for a GPU
        texts = sorted(set[KernelImage]().union(*found), key=lambda text: numbers_of(text.isa))
        real = {*{(text.kind, text.built_for): text for text in texts}.values()}
    yield from _compare(file, (images - of_iree) | its_ptx, real)


def _of_entry(entry: FatbinEntry) -> KernelImage:
    return KernelImage(entry.kind, entry.arch, entry.isa)


def _compare(file: str, images: Set[KernelImage], real: Set[KernelImage]) -> Iterator[Subject]:
    """Compare the targets of the images, then the ISA of the PTX that both have."""
    listed, found = _isas(images), _isas(real)
    for image in sorted(listed.keys() - found.keys()):
        detail = "the index lists {0} {1}, which is not in it"
        yield Subject(file=file, detail=detail, kind="missing", about=image)
    for image in sorted(found.keys() - listed.keys()):
        detail = "it has {0} {1}, which the index does not list"
        yield Subject(file=file, detail=detail, kind="not listed", about=image)
    for image in sorted(listed.keys() & found.keys()):
        if listed[image] != found[image]:
            isas, its = (tuple(sorted(each[image], key=numbers_of)) for each in (listed, found))
            detail = "the index lists {0} {1} of PTX {listed}, and it has PTX {found}"
            facts = facts_of(listed=isas, found=its)
            yield Subject(file=file, detail=detail, facts=facts, kind="ISA", about=image)


def _isas(images: Set[KernelImage]) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for image in images:
        found.setdefault((image.kind, image.target), set()).add(image.isa)
    return found


@rule(
    "GF702",
    "error",
    "the sources of a user-compiled object do not match its recipe",
    what="User-compiled sources do not match their recipe.",
    why="Users cannot compile them.",
    fix="Build the wheel again, and change no file after the recipe was written.",
    contradicts="sources",
)
def source_sets(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Compare each recipe with the files beside it, and the sets with the manifest."""
    for sources in wheel.sources:
        yield from _of_source_set(sources)
    names = {sources.name for sources in wheel.sources}
    expectation = graph.expectation_of(wheel)
    for name in expectation.source_sets if expectation else ():
        if name not in names:
            detail = "the user-compiled object {0!r} of the manifest is not in the wheel"
            yield Subject(detail=detail, kind="missing", about=(name,))


def _of_source_set(sources: SourceSet) -> Iterator[Subject]:
    """Yield each problem of a recipe."""
    recipe = layout.recipe(sources.folder)
    if isinstance(sources.recipe, Unusable):
        kind, problem = sources.recipe
        yield Subject(file=recipe, detail="{problem}", facts=facts_of(problem=problem), kind=kind)
        return
    for listed in sources.recipe.files:
        file = listed.file
        if file not in sources.digests:
            yield Subject(file=recipe, detail="{0} is not in the wheel", kind="missing", about=(file,))
        elif sources.digests[file] != listed.sha256:
            detail = "the sha256 of {0} is not the one in the recipe"
            yield Subject(file=recipe, detail=detail, kind="differs", about=(file,))


@rule(
    "GF711",
    "error",
    "a kernels wheel does not match the wheel of its package",
    what="The kernels wheel does not match the wheel of the package.",
    why="The runtime refuses its kernels, and the package computes on the CPU.",
    fix="Publish and install the wheels of one build.",
)
def kernels_wheels(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each kernels wheel with the list in its package's wheel, as the runtime does."""
    packages = [(w, w.kernels_listing) for w in graph.wheels if isinstance(w.kernels_listing, KernelsWheels)]
    for wheel in graph.wheels:
        about = wheel.kernels_description
        given = [(package, known) for package, known in packages if wheel.project in known.distributions]
        if about is None or not given:
            continue
        reasons = [list(_reasons(about, package, known)) for package, known in given]
        if all(reasons):  # if there are several releases of the package, it may belong to one of them
            yield kernels_wheels.finding(
                wheel.name, tuple(dict.fromkeys(subject for each in reasons for subject in each)), across=True
            )


def _reasons(
    about: KernelsWheels | Unusable, package: WheelFacts, listed: KernelsWheels
) -> Iterator[Subject]:
    subject = Subject(provider=package.name, about=(package.project,))
    if isinstance(about, Unusable):
        facts = facts_of(file=layout.WHEEL, problem=about.problem)
        yield subject._replace(detail="its {file} cannot be used: {problem}", facts=facts, kind=about.kind)
        return
    if about.version != listed.version:
        detail = "its version is {version}, and {provider} has {wanted}"
        facts = facts_of(version=about.version, wanted=listed.version)
        yield subject._replace(detail=detail, facts=facts, kind="version")
        return
    for name, interface in listed.sets.items():
        one = subject._replace(about=(name, package.project))
        if name not in about.sets:
            yield one._replace(detail="it lacks the kernel set {0}, which {provider} needs", kind="missing")
        elif about.sets[name] != interface:
            detail = "{0} has the interface {found}, and {provider} was built for {wanted}"
            facts = facts_of(found=about.sets[name], wanted=interface)
            yield one._replace(detail=detail, facts=facts, kind="interface")
